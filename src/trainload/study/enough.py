"""When a study has measured enough: which cells want another repetition, and why the others do not.

Pure arithmetic on the numbers of each cell, standard library alone; runs nothing, reads nothing.
`bench/study_coverage.py` checks by simulation what is promised here.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from trainload.intervals import (
    FEWEST,
    Interval,
    mean_of,
    median_interval,
    student_t_quantile,
    welch_difference,
)
from trainload.steadiness import unstable_reason

State = Literal["more", "enough", "at maximum", "out of the race", "says nothing"]

RESOLVED = 1.0
"""Standard error of a difference, in asked widths, up to which repetitions resolve the width."""
UNRESOLVED = 0.01
"""Share of the level that is left where they do not: then most of what chance lets through would
point the wrong way."""
Z_99 = 2.326
"""Normal quantile: a standard error of few values may be small by chance."""


@dataclass(frozen=True, kw_only=True)
class WidthRule:
    """Repeat each cell until the interval of its median is narrow enough."""

    width_fraction: float
    """High bound minus low bound, over the median."""
    minimum: int = FEWEST
    maximum: int = 30
    confidence: float = 0.95
    warmup: int = 0
    """First repetitions of each cell that never count; fixed beforehand, so that nothing in the
    values decides it."""

    def __post_init__(self) -> None:
        _check_rule(self.width_fraction, self.minimum, self.maximum, self.confidence, self.warmup)

    @property
    def confidence_each(self) -> float:
        """What each look's interval has to reach, so that the one it ends with holds."""
        return paid_confidence(self.confidence, self.minimum, self.maximum)


@dataclass(frozen=True, kw_only=True)
class RankRule:
    """Repeat the cells that may still be among the best, until it is decided which they are."""

    width_fraction: float
    """Difference that does not matter: cells that surely differ by less are as good."""
    top: int = 1
    lower_is_better: bool = True
    minimum: int = FEWEST
    maximum: int = 30
    confidence: float = 0.95
    """That no cell of the true top is ever put out."""
    warmup: int = 0

    def __post_init__(self) -> None:
        _check_rule(self.width_fraction, self.minimum, self.maximum, self.confidence, self.warmup)
        if self.top < 1:
            raise ValueError("top must be at least 1")


@dataclass(frozen=True, kw_only=True)
class CellVerdict:
    """What is known of one cell, and whether that is enough."""

    state: State
    reason: str
    repetitions: int
    """Those that count: warm-up is left out."""
    value: float | None
    """The median; None without a value."""
    low: float | None
    high: float | None
    """Bounds that hold at the end of the study, however often it looked; None: nothing is said."""
    unstable: str | None = None
    """Why the cell is called unstable; None where it is not, or while it wants more."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What to do next."""

    wanted: frozenset[str]
    """Cells to repeat once more; none: the study has measured enough or all it may."""
    verdicts: Mapping[str, CellVerdict]
    leaders: tuple[str, ...] = field(default=())
    """Of a ranking: the best so far, the best first."""
    decided: bool = False
    """Whether every cell has enough; False where a maximum ended it."""


def next_repetitions(values: Mapping[str, Sequence[float]], rule: WidthRule | RankRule) -> Decision:
    """Which cells to repeat once more, from the values of each in the order they were measured.

    ValueError for a value that is not finite: such a repetition does not count.
    """
    counted = {cell: tuple(found[rule.warmup :]) for cell, found in values.items()}
    for cell, found in counted.items():
        if not all(map(math.isfinite, found)):
            raise ValueError(f"cell {cell} has a value that is not finite")
    leaders: tuple[str, ...] = ()
    if isinstance(rule, WidthRule):
        verdicts = {cell: _width_verdict(found, rule) for cell, found in counted.items()}
    else:
        verdicts, leaders = _race(counted, rule)
    wanted = frozenset(cell for cell, verdict in verdicts.items() if verdict.state == "more")
    decided = all(v.state in ("enough", "out of the race") for v in verdicts.values())
    return Decision(wanted=wanted, verdicts=verdicts, leaders=leaders, decided=decided)


@lru_cache(maxsize=1024)
def paid_confidence(confidence: float, minimum: int, maximum: int) -> float:
    """Confidence of each look where a width ends the looking: 1 - α / (1 + ln(maximum/minimum)).

    Whoever stops at the first narrow interval picks those that chance made narrow. Neighbouring
    looks share nearly all their values, so a new chance comes with each e-fold of them, and α is
    shared among those. By simulation this holds for three repetitions and more.
    """
    return 1 - (1 - confidence) / (1 + math.log(maximum / minimum))


@lru_cache(maxsize=1024)
def paid_chance(chance: float, minimum: int, maximum: int) -> float:
    """Level of each look where significance itself ends the looking, one-sided.

    The larger of Bonferroni's and that of a boundary which a standardised random walk crosses
    anywhere between the two counts with `chance`: φ(c)·((c - 1/c)·ln(maximum/minimum) + 4/c) both
    ways (after Siegmund, Sequential Analysis, 1985), by bisection on c.
    """
    if minimum == maximum:
        return chance
    normal, spread = statistics.NormalDist(), math.log(maximum / minimum)
    low, high = 1.0, 40.0
    for _ in range(80):
        c = (low + high) / 2
        crossing = normal.pdf(c) * ((c - 1 / c) * spread + 4 / c)
        low, high = (c, high) if crossing > 2 * chance else (low, c)
    return max(chance / (maximum - minimum + 1), normal.cdf(-high))


def _width_verdict(values: Sequence[float], rule: WidthRule) -> CellVerdict:
    n = len(values)
    interval = median_interval(values, confidence=rule.confidence_each)
    if n < rule.minimum:
        return _verdict("more", f"{n} of at least {rule.minimum} repetitions", values, interval)
    if interval is None:
        return _verdict(*_silence(n, rule.maximum), values, interval)
    width = _width_fraction(interval)
    said = f"the {rule.confidence:.0%} interval is {width:.2%} of the median wide"
    if width <= rule.width_fraction:
        return _verdict("enough", f"{said} after {n} repetitions", values, interval)
    asked = f"{said}, {rule.width_fraction:.2%} asked"
    if n >= rule.maximum:
        return _verdict("at maximum", f"{asked}, after all {n} repetitions", values, interval)
    return _verdict("more", asked, values, interval)


def _width_fraction(interval: Interval) -> float:
    width = interval.high - interval.low
    if width == 0:
        return 0.0
    return width / abs(interval.value) if interval.value else math.inf


def _silence(n: int, maximum: int) -> tuple[State, str]:
    why = "all are equal" if n >= FEWEST else f"at least {FEWEST} are needed"
    said = f"{n} repetition(s) say nothing of the spread: {why}"
    return ("says nothing" if n >= maximum else "more"), said


def _verdict(
    state: State, reason: str, values: Sequence[float], interval: Interval | None
) -> CellVerdict:
    return CellVerdict(
        state=state,
        reason=reason,
        repetitions=len(values),
        value=statistics.median(values) if values else None,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        unstable=None if state == "more" else unstable_reason(values),
    )


class _Race:
    """The cells of a ranking on one scale, on which lower is better."""

    def __init__(self, values: Mapping[str, Sequence[float]], rule: RankRule) -> None:
        self.rule = rule
        ready = {c: v for c, v in values.items() if len(v) >= max(rule.minimum, 2)}
        self.logs = all(value > 0 for found in ready.values() for value in found)
        sign = 1 if rule.lower_is_better else -1
        scaled = {
            cell: tuple(sign * (math.log(v) if self.logs else v) for v in found)
            for cell, found in ready.items()
        }
        self.medians = {cell: statistics.median(found) for cell, found in scaled.items()}
        self.means = {cell: mean_of(found) for cell, found in scaled.items()}
        self.order = sorted(ready, key=self.medians.__getitem__)
        pairs = max(rule.top * (len(values) - rule.top), 1)
        self.chance = paid_chance((1 - rule.confidence) / pairs, rule.minimum, rule.maximum)

    def surely_worse(self, cell: str, other: str) -> bool:
        """Whether a cell is behind another at the paid level."""
        found = welch_difference(self.means[cell], self.means[other])
        if found is None:
            return self._constants_differ(cell, other)
        largest_error = found.error * student_t_quantile(0.99, int(found.degrees)) / Z_99
        resolved = largest_error <= RESOLVED * self.width_beside(other)
        return found.chance_above(0) < self.chance * (1 if resolved else UNRESOLVED)

    def _constants_differ(self, cell: str, other: str) -> bool:
        """Of cells that never varied: as surely as so many values fall on a median's wrong side."""
        counts = [self.means[name].observations for name in (cell, other)]
        surely = math.fsum(0.5**n for n in counts) < self.chance
        return surely and self.means[cell].value > self.means[other].value

    def as_good(self, cell: str, other: str) -> bool:
        """Whether two cells surely differ by less than what matters (two one-sided tests)."""
        width = self.width_beside(other)
        pairs = ((self.means[cell], self.means[other]), (self.means[other], self.means[cell]))
        found = [welch_difference(*pair) for pair in pairs]
        return all(d is not None and d.chance_above(-width) < self.chance for d in found)

    def width_beside(self, other: str) -> float:
        """The asked width on the scale of the race."""
        width = self.rule.width_fraction
        return math.log1p(width) if self.logs else width * abs(self.medians[other])

    def is_out(self, cell: str) -> bool:
        """Whether `top` cells are surely better; asked of the foremost, one spare for each two."""
        ahead = self.order[: self.rule.top + 2 + self.rule.top // 2]
        better = sum(self.surely_worse(cell, other) for other in ahead if other != cell)
        return better >= self.rule.top


def _race(
    values: Mapping[str, Sequence[float]], rule: RankRule
) -> tuple[dict[str, CellVerdict], tuple[str, ...]]:
    race = _Race(values, rule)
    waiting = [cell for cell in values if cell not in race.means]
    out = {cell for cell in race.order if race.is_out(cell)}
    running = [cell for cell in race.order if cell not in out]
    leaders = tuple(running[: rule.top])
    tied = {cell for cell in running[rule.top :] if race.as_good(cell, leaders[-1])}
    open_ = [cell for cell in running[rule.top :] if cell not in tied]
    decided = not waiting and not open_
    chance = paid_chance((1 - rule.confidence) / 2, rule.minimum, rule.maximum)
    verdicts = {}
    for cell, found in values.items():
        interval = median_interval(found, confidence=1 - 2 * chance)
        state, reason = _race_state(cell, len(found), rule, leaders, out, tied, decided)
        verdicts[cell] = _verdict(state, reason, found, interval)
    return verdicts, leaders


def _race_state(
    cell: str,
    n: int,
    rule: RankRule,
    leaders: Sequence[str],
    out: set[str],
    tied: set[str],
    decided: bool,
) -> tuple[State, str]:
    best = "the best" if rule.top == 1 else f"the best {rule.top}"
    if n < max(rule.minimum, 2):
        return "more", f"{n} of at least {rule.minimum} repetitions"
    if cell in out:
        return "out of the race", f"surely not among {best} after {n} repetitions"
    if cell in tied:
        return "enough", f"within {rule.width_fraction:.2%} of {leaders[-1]} after {n} repetitions"
    if decided:
        return "enough", f"among {best}, and nothing open is left"
    if n >= rule.maximum:
        return "at maximum", f"not told apart from {best} by all {n} repetitions"
    return "more", f"may be among {best}"


def _check_rule(width: float, minimum: int, maximum: int, confidence: float, warmup: int) -> None:
    if not width > 0:
        raise ValueError("width_fraction must be above 0")
    if not 1 <= minimum <= maximum:
        raise ValueError("repetitions must satisfy 1 <= minimum <= maximum")
    if not 0.5 <= confidence < 1:
        raise ValueError("confidence must lie in [0.5, 1)")
    if warmup < 0:
        raise ValueError("warmup must not be negative")
