"""Whether a rule holds on a machine: each check with its interval, and a verdict from them.

A check decides where its interval lies wholly inside or wholly outside its bounds: two figures by
Welch's test on logarithms, one by the interval of its median. The intervals of one rule hold
together at 95 % (Bonferroni). What was timed while others were busy decides nothing. Pure.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trainload.analyse.reproduce.readings import Reading as Figured
from trainload.analyse.rules.derived import derive
from trainload.analyse.rules.statements import Check, Figure, Rule, RuleFile
from trainload.hardware.limits import MachineLimits
from trainload.intervals import mean_of, median_interval, student_t_quantile, welch_difference
from trainload.units import render_percent
from trainload_worker.protocol.measure import COUNTING, Measured, Reading

RuleVerdict = Literal["holds", "does not hold", "cannot tell", "dated"]
CHANCE = 0.05
MOST_OTHERS = 0.15
"""Share of the cores that others may take beside a program that times, for it to decide."""
_FEWEST = 3
_EXTREMES: dict[str, Callable[..., Reading]] = {"most": max, "least": min}


@dataclass(frozen=True, kw_only=True)
class Checked:
    """One check with its figure."""

    words: str
    unit: str
    """Of the figure: `ratio`, or that of what was measured."""
    figure: Figured
    holds: bool | None
    """None where the interval does not decide, or there is none."""


@dataclass(frozen=True, kw_only=True)
class JudgedRule:
    """One rule with what the machine's figures say of it."""

    rule: Rule
    verdict: RuleVerdict
    reason: str
    checked: tuple[Checked, ...]


def judge_rules(file: RuleFile, limits: MachineLimits) -> list[JudgedRule]:
    """Every rule of a file in its order."""
    known = _Figures(limits)
    return [judge_rule(rule, known, limits) for rule in file.rules]


def judge_rule(rule: Rule, known: _Figures, limits: MachineLimits) -> JudgedRule:
    """One rule; what is dated or cannot be told shows its figures all the same."""
    chance = CHANCE / max(len(rule.checks), 1)
    checked = tuple(
        one
        for check in rule.checks
        if (one := _check(check, known, chance)).figure.value is not None or not check.where_there
    )
    if rule.dated is not None:
        return JudgedRule(rule=rule, verdict="dated", reason=rule.dated, checked=checked)
    open_because = _lacks_fact(rule, limits) or rule.barred
    if open_because is not None:
        return JudgedRule(rule=rule, verdict="cannot tell", reason=open_because, checked=checked)
    verdict = _verdict([one.holds for one in checked], rule.need)
    return JudgedRule(rule=rule, verdict=verdict, reason=_reason(checked, verdict), checked=checked)


class _Figures:
    """Measured and derived figures by program and condition."""

    def __init__(self, limits: MachineLimits) -> None:
        self._limits = limits
        self._programs = {one.program: one for one in (*limits.measured, *derive(limits))}

    def unit(self, figure: Figure) -> str:
        found = self._programs.get(figure.program)
        return "" if found is None else found.unit

    def find(self, figure: Figure) -> Reading | None:
        """The samples with their condition; None where the machine has no such figure."""
        found = self._programs.get(figure.program)
        return None if found is None else _pick(found, figure)

    def others(self, figure: Figure) -> float:
        """Others' share of the cores beside a program that times; 0 where it counts."""
        source = _SOURCES.get(figure.program, figure.program)
        found = self._programs.get(source)
        if found is None or source in COUNTING:
            return 0.0
        return found.others_fraction or 0.0

    def why_missing(self, figure: Figure) -> str:
        found = self._programs.get(figure.program)
        if found is None:
            source = _SOURCES.get(figure.program, figure.program)
            return self._limits.why_missing(source)
        if figure.at.get("device") == "cuda":
            return "no GPU that torch can use is here"
        levels = " ".join(f"{name}={level}" for name, level in figure.at.items())
        return f"{figure.program} has no figure of {levels}".strip()


_SOURCES = {
    "translation-cost": "tlb-reach",
    "cache-miss-cost": "memory-latency",
    "time-over-t1": "forward-time",
    "time-over-t2": "forward-time",
    "over-formula": "training-memory",
    "reserve-share": "training-memory",
    "random-reads": "drive-read",
    "rate-of-a-core": "memory-bandwidth",
}
"""Which program a derived figure rests on."""


def _pick(found: Measured, figure: Figure) -> Reading | None:
    """The reading with the figure's levels; of `most` and `least` the one at that end."""
    ends = {name: level for name, level in figure.at.items() if level in _EXTREMES}
    plain = {name: level for name, level in figure.at.items() if name not in ends}
    fitting = [one for one in found.readings if plain.items() <= one.at.items()]
    for name, level in ends.items():
        fitting = [one for one in fitting if _is_number(one.at.get(name))]
        if fitting:
            fitting = [_EXTREMES[level](fitting, key=lambda one: float(one.at[name]))]
    return fitting[0] if fitting else None


def _is_number(text: str | None) -> bool:
    try:
        return text is not None and math.isfinite(float(text))
    except ValueError:
        return False


def _check(check: Check, known: _Figures, chance: float) -> Checked:
    figure = _figure(check, known, chance)
    unit = known.unit(check.of) if check.scale != "ratio" else "ratio"
    return Checked(words=check.words, unit=unit, figure=figure, holds=_holds(check, figure))


def _figure(check: Check, known: _Figures, chance: float) -> Figured:
    sides = [check.of] if check.against is None else [check.of, check.against]
    found: list[Reading] = []
    for side in sides:
        one = known.find(side)
        if one is None or not one.values:
            return Figured(reason=known.why_missing(side))
        found.append(one)
    if check.scale == "value":
        figure = _value(found[0].values, check.every, chance)
    elif found[0] is found[1]:
        return Figured(reason="there is one such level here: nothing to compare it with")
    else:
        figure = _change(found[0].values, found[1].values, check.scale == "ratio", chance)
    shared = max(map(known.others, sides))
    if figure.reason is None and shared > MOST_OTHERS:
        words = f"others took {render_percent(shared)} of the cores while it was measured"
        return replace(figure, reason=words)
    return figure


def _value(values: Sequence[float], every: bool, chance: float) -> Figured:
    middle = statistics.median(values)
    if every:
        # Seeds, each a case of its own: the bounds are the least and the most of them.
        return Figured(value=middle, low=min(values), high=max(values), runs=len(values))
    found = median_interval(values, confidence=1 - chance)
    if found is not None:
        return Figured(value=middle, low=found.low, high=found.high, runs=len(values))
    if len(values) >= _FEWEST:  # an allocator's count, the same each time
        return Figured(value=middle, low=middle, high=middle, runs=len(values))
    return Figured(value=middle, runs=len(values), reason="too few samples for an interval")


def _change(left: Sequence[float], right: Sequence[float], ratio: bool, chance: float) -> Figured:
    """One figure against another; medians give the value, Welch's test its bounds."""
    runs = len(left) + len(right)
    if ratio and min(*left, *right) <= 0:
        return Figured(runs=runs, reason="a figure is not above 0: it has no ratio")
    one, other = ([math.log(v) for v in side] if ratio else list(side) for side in (left, right))
    back = math.exp if ratio else float
    if min(len(one), len(other)) < 2:
        value = back(statistics.fmean(one) - statistics.fmean(other))
        return Figured(value=value, runs=runs, reason="too few samples for an interval")
    means = mean_of(one), mean_of(other)
    center = means[0].value - means[1].value
    found = welch_difference(*means)
    margin = 0.0
    if found is not None:
        margin = student_t_quantile(1 - chance / 2, found.degrees) * found.error
    return Figured(
        value=back(center), low=back(center - margin), high=back(center + margin), runs=runs
    )


def _holds(check: Check, figure: Figured) -> bool | None:
    if figure.low is None or figure.high is None or figure.reason is not None:
        return None
    least = -math.inf if check.above is None else check.above
    most = math.inf if check.below is None else check.below
    if figure.low > least and figure.high < most:
        return True
    if figure.high <= least:
        return None if check.undecided_below else False
    return False if figure.low >= most else None


def _verdict(holds: Sequence[bool | None], need: int | None) -> RuleVerdict:
    """Certain even if every open check went the other way."""
    wanted = len(holds) if need is None else need
    if holds and sum(one is True for one in holds) >= wanted:
        return "holds"
    if sum(one is not False for one in holds) < wanted:
        return "does not hold"
    return "cannot tell"


def _reason(checked: Sequence[Checked], verdict: RuleVerdict) -> str:
    silent = [one.figure.reason for one in checked if one.figure.reason is not None]
    if verdict == "cannot tell" and len(silent) == len(checked):
        return silent[0] if silent else "nothing was measured of it"
    counts = [sum(one.holds is what for one in checked) for what in (True, False, None)]
    if len(checked) == 1:
        decided = "decides" if verdict != "cannot tell" else "does not decide"
        return f"the interval {decided}"
    said = f"; {silent[0]}" if silent and verdict == "cannot tell" else ""
    return f"{counts[0]} as predicted, {counts[1]} not, {counts[2]} open{said}"


def _lacks_fact(rule: Rule, limits: MachineLimits) -> str | None:
    needed = rule.needs_fact
    if needed is None:
        return None
    told = limits.facts.get(needed.name, "")
    return None if told.isdecimal() and int(told) >= needed.least else needed.otherwise
