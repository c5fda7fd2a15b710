"""Every metric of two sides: difference, interval at the level of its verdict, verdict.

Takes pairs of cells, gives rows; the spread behind them is `spread`'s affair.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from trainload.analyse.compare.cells import CellPair
from trainload.analyse.compare.spread import Estimate, Known, estimate_difference, told_values
from trainload.analyse.compare.values import LEVEL, MetricDifference, Standing, Verdict
from trainload.analyse.study.best import higher_is_better
from trainload.analyse.study.contrasts import holm_levels
from trainload.record.figures import RunFigures
from trainload.units import unit_of

STEP = "step_s"
EQUAL_SPREAD = 0.005
"""Relative deviation taken for values that are all equal: too fine to be seen is not none."""
_FIRST_SHARE = 0.5
"""Of the allowed error, for the step time and the metrics that a threshold names."""
_TIMES = frozenset(
    {"step_s", "step_mean_s", "step_p5_s", "step_p95_s", "training_s", "duration_s", "input_wait_s"}
)
_RATES = frozenset({"examples_per_s", "tokens_per_s", "mean_examples_per_s"})
_EXACT = frozenset({"batch_size", "parameters"})
"""Facts of the workload that a process cannot change: they have no spread."""
_REPEATED = frozenset({"steps", "epochs", "peak_allocated_bytes", "peak_reserved_bytes"})
"""Counts that a program repeats exactly; where two runs of each side did, nor have these."""
_JUDGED = ("accuracy", "loss", "energy_j", "power_w", "peak_", "top1", "top5", "layers_cost_s")
"""Parts of names of metrics that have a better direction, beside times and rates."""


@dataclass(frozen=True, kw_only=True)
class _Found:
    """A metric before many are judged together."""

    name: str
    logs: bool
    exact: bool
    """Whether nothing is left to chance."""
    a: float | None
    b: float | None
    runs_a: int
    runs_b: int
    estimate: Estimate | None


def compare_metrics(
    pairs: Sequence[CellPair], known: Known, *, margin: float, first: Collection[str] = ()
) -> tuple[MetricDifference, ...]:
    """One row for each metric of either side, the step time first.

    Half of the allowed error goes to the step time and the metrics `first`, half to all others;
    each half is shared by Holm's procedure.
    """
    names = _names(pairs)
    found = [_find(name, pairs, known) for name in names]
    primary = {STEP, *first}
    levels: dict[str, float] = {}
    for chosen, share in ((True, _FIRST_SHARE), (False, 1 - _FIRST_SHARE)):
        family = {
            one.name: p
            for one in found
            if (one.name in primary) is chosen and (p := _p_value(one)) is not None
        }
        levels |= zip(family, holm_levels(list(family.values()), (1 - LEVEL) * share), strict=True)
    return tuple(_judge(one, levels.get(one.name), margin) for one in found)


def _names(pairs: Sequence[CellPair]) -> list[str]:
    runs = [run for pair in pairs for run in (*pair.a, *pair.b)]
    names = sorted({name for run in runs for name in run.figures.metrics} - {STEP})
    ordered = sorted(names, key=lambda name: _order(name))
    return [STEP, *ordered]


def _order(name: str) -> int:
    """What is judged before what is only told; the alphabet inside."""
    if name in _TIMES or name in _RATES:
        return 0
    return 1 if any(part in name for part in _JUDGED) else 2


def _find(name: str, pairs: Sequence[CellPair], known: Known) -> _Found:
    every = [value for pair in pairs for value in _values(name, pair)]
    logs = bool(every) and min(every) > 0

    def scaled(figures: RunFigures) -> float | None:
        value = figures.metrics.get(name)
        if value is None or not logs:
            return value
        return math.log(value) if value > 0 else None  # a store's run may be without

    def raw(figures: RunFigures) -> float | None:
        return figures.metrics.get(name)

    size = math.fsum(map(abs, every)) / len(every) if every else 0.0
    floor = EQUAL_SPREAD if logs else EQUAL_SPREAD * size
    estimate = estimate_difference(pairs, scaled, known, floor=floor)
    told = [(told_values(pair.a, raw), told_values(pair.b, raw)) for pair in pairs]
    sides = tuple(zip(*([pair for pair in told if all(pair)] or told), strict=True))
    return _Found(
        name=name,
        logs=logs,
        exact=_is_exact(name, [cell for side in sides for cell in side]),
        a=_center(sides[0], logs),
        b=_center(sides[1], logs),
        runs_a=sum(map(len, sides[0])),
        runs_b=sum(map(len, sides[1])),
        estimate=estimate,
    )


def _is_exact(name: str, cells: Sequence[Sequence[float]]) -> bool:
    least = 1 if name in _EXACT else 2 if name in _REPEATED else math.inf
    return all(len(cell) >= least and len({*cell}) == 1 for cell in cells)


def _values(name: str, pair: CellPair) -> Iterator[float]:
    for run in (*pair.a, *pair.b):
        if name in run.figures.metrics:
            yield run.figures.metrics[name]


def _center(cells: Sequence[Sequence[float]], logs: bool) -> float | None:
    """Mean of the cells' means; None where one has no value."""
    if not all(cells):
        return None
    values = {value for cell in cells for value in cell}
    if len(values) == 1:
        return values.pop()  # a logarithm and back would change its last digits
    scale = math.log if logs else float
    mean = math.fsum(math.fsum(map(scale, cell)) / len(cell) for cell in cells) / len(cells)
    return math.exp(mean) if logs else mean


def _p_value(found: _Found) -> float | None:
    estimate = found.estimate
    if found.exact or estimate is None or estimate.contrast is None:
        return None
    contrast = estimate.contrast
    chance = contrast.p_value if contrast.error > 0 else float(contrast.value == 0)
    return max(chance, estimate.tied_chance)


def _judge(found: _Found, chance: float | None, margin: float) -> MetricDifference:
    a, b, estimate = found.a, found.b, found.estimate
    difference = None if a is None or b is None else b - a
    low = high = None
    note = None if estimate is None else estimate.note
    if difference is not None and found.exact:
        low = high = difference
        note = "told by the workload"
    elif a is not None and estimate is not None and estimate.contrast is not None and chance:
        contrast = estimate.contrast
        bounds = contrast.bounds(chance) if contrast.error > 0 else (contrast.value,) * 2
        low, high = ((a * math.expm1(min(x, 700.0)) if found.logs else x) for x in bounds)
        sure = verdict_of(found.name, a, low, high, margin) not in ("same", "inconclusive")
        if sure and estimate.tied_chance >= chance:
            low = high = None
            note = "all values of each side are equal, which so few runs may be by chance"
    elif difference is None:
        note = "no run tells it" if a is b is None else f"missing in {'A' if a is None else 'B'}"
    verdict = verdict_of(found.name, a, low, high, margin)
    return MetricDifference(
        name=found.name,
        unit=unit_of(found.name),
        a=a,
        b=b,
        difference=difference,
        percent=100 * difference / abs(a) if difference is not None and a else None,
        low=low,
        high=high,
        confidence=None if chance is None else 1 - chance,
        runs_a=found.runs_a,
        runs_b=found.runs_b,
        verdict=verdict,
        standing=_standing(found.name, verdict, missing=difference is None),
        note=note,
    )


def verdict_of(
    name: str, a: float | None, low: float | None, high: float | None, margin: float
) -> Verdict:
    """`same` where the interval lies within the margin of `a`; a difference where it leaves 0."""
    if a is None or low is None or high is None:
        return "inconclusive"
    if -margin * abs(a) <= low and high <= margin * abs(a):
        return "same"
    if low <= 0 <= high:
        return "inconclusive"
    up = low > 0
    if name in _TIMES:
        return "slower" if up else "faster"
    if name in _RATES:
        return "faster" if up else "slower"
    return "higher" if up else "lower"


def _standing(name: str, verdict: Verdict, *, missing: bool) -> Standing:
    if missing:
        return "missing"
    if verdict == "inconclusive":
        return "undecided"
    if verdict == "same":
        return "unchanged"
    if verdict in ("faster", "slower"):
        return "better" if verdict == "faster" else "worse"
    if not any(part in name for part in _JUDGED):
        return "changed"
    return "better" if (verdict == "higher") == higher_is_better(name) else "worse"
