"""One figure with its interval from the runs of a cell or of two, or the reason there is none."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from trainload.analyse.reproduce.evidence import Evidence
from trainload.analyse.study.contrasts import mean_difference
from trainload.intervals import FEWEST, median_interval

_FEW = "too few repetitions for an interval"
_EQUAL = "all repetitions gave the same value, which says nothing of the spread"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A figure; bounds are None where the runs do not give them, and `reason` says why."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    runs: int = 0
    """Runs on which it rests, both sides together."""
    reason: str | None = None


def read_value(
    evidence: Evidence, levels: Mapping[str, str], metric: str, chance: float
) -> Reading:
    """The median of a cell."""
    values = evidence.values(levels, metric)
    if not values:
        return Reading(reason=evidence.why_missing(levels, metric))
    return _median(values, chance)


def read_change(
    evidence: Evidence,
    one: Mapping[str, str],
    other: Mapping[str, str],
    metric: str,
    chance: float,
    *,
    ratio: bool = True,
) -> Reading:
    """One cell against another, by Welch's test: the ratio of the two, or their difference."""
    left, right = evidence.values(one, metric), evidence.values(other, metric)
    for levels, values in ((one, left), (other, right)):
        if not values:
            return Reading(reason=evidence.why_missing(levels, metric))
    if ratio and min(*left, *right) <= 0:
        return Reading(reason=f"{metric} is not above 0 in every run: it has no ratio")
    if ratio:
        left, right = [math.log(v) for v in left], [math.log(v) for v in right]
    value = statistics.fmean(left) - statistics.fmean(right)
    found = mean_difference([(left, right)])
    bounds = (None, None) if found is None else found.bounds(chance)
    value, low, high = (
        math.exp(min(v, 700.0)) if ratio and v is not None else v for v in (value, *bounds)
    )
    return Reading(
        value=value,
        low=low,
        high=high,
        runs=len(left) + len(right),
        reason=_why_no_interval(left, right) if found is None else None,
    )


def read_within(
    evidence: Evidence, levels: Mapping[str, str], metric: str, beside: str, chance: float
) -> Reading:
    """One metric over another of the same run, the median over a cell's runs."""
    for name in (metric, beside):
        if not evidence.values(levels, name):
            return Reading(reason=evidence.why_missing(levels, name))
    left, right = evidence.rows(levels, (metric, beside))
    ratios = [a / b for a, b in zip(left, right, strict=True) if a and b]
    if not ratios:
        return Reading(reason=f"no run has both {metric} and {beside} above 0")
    return _median(ratios, chance)


def _median(values: list[float], chance: float) -> Reading:
    found = median_interval(values, confidence=1 - chance)
    if found is None:
        return Reading(
            value=statistics.median(values), runs=len(values), reason=_why_no_interval(values)
        )
    return Reading(value=found.value, low=found.low, high=found.high, runs=len(values))


def _why_no_interval(*sides: list[float]) -> str:
    many = all(len(side) >= FEWEST for side in sides)
    return _EQUAL if many and all(len(set(side)) == 1 for side in sides) else _FEW
