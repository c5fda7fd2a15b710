"""Many runs of one workload in order of time: where a metric changed, how much, and with what."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainload.analyse.compare.changes import find_splits
from trainload.analyse.compare.facts import compare_configuration, compare_environment
from trainload.analyse.compare.metrics import verdict_of
from trainload.analyse.compare.values import LEVEL, ComparedRun, FactDifference, Side, Verdict
from trainload.analyse.study.contrasts import mean_difference, require_scipy
from trainload.units import unit_of


@dataclass(frozen=True, kw_only=True)
class DatedRun:
    """A run and when it began."""

    created: str
    """ISO 8601, UTC."""
    run: ComparedRun


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run's value."""

    run: str
    created: str
    value: float


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of level, against the stretch before it."""

    at: int
    """Position of the first run after it."""
    earliest: int
    latest: int
    """Positions between which it lies with 95 %."""
    before: float
    after: float
    """Geometric means of the stretches; arithmetic ones where a value is not positive."""
    difference: float
    percent: float | None
    low: float | None
    high: float | None
    """Bounds of the difference, as if its place had been known: a little too narrow."""
    p_value: float
    verdict: Verdict
    configuration: tuple[FactDifference, ...]
    environment: tuple[FactDifference, ...]
    """What is different between the runs right before and after it."""


@dataclass(frozen=True, kw_only=True)
class History:
    """One metric of one workload over time."""

    title: str
    metric: str
    unit: str | None
    points: tuple[Point, ...]
    changes: tuple[Change, ...]
    left_out: tuple[str, ...] = ()


def follow_metric(
    title: str, metric: str, runs: Sequence[DatedRun], left_out: Sequence[str] = ()
) -> History:
    """The history of a metric; runs that do not tell it are left out."""
    require_scipy()
    told = sorted(
        (one for one in runs if metric in one.run.figures.metrics), key=lambda one: one.created
    )
    values = [one.run.figures.metrics[metric] for one in told]
    logs = bool(values) and min(values) > 0
    scaled = [math.log(value) for value in values] if logs else values
    splits = find_splits(scaled)
    edges = [0, *(split.at for split in splits), len(values)]
    changes = []
    for place, split in enumerate(splits):
        first, beyond = edges[place], edges[place + 2]
        left, right = scaled[first : split.at], scaled[split.at : beyond]
        before, after = (_center(part, logs) for part in (left, right))
        contrast = mean_difference([(right, left)])
        bounds: tuple[float | None, float | None] = None, None
        if contrast is not None:
            low, high = contrast.bounds(1 - LEVEL)
            bounds = (before * math.expm1(low), before * math.expm1(high)) if logs else (low, high)
        sides = (_side(told[split.at - 1]), _side(told[split.at]))
        changes.append(
            Change(
                at=split.at,
                earliest=split.earliest,
                latest=split.latest,
                before=before,
                after=after,
                difference=after - before,
                percent=100 * (after - before) / abs(before) if before else None,
                low=bounds[0],
                high=bounds[1],
                p_value=split.p_value,
                verdict=verdict_of(metric, before, *bounds, 0.0),
                configuration=compare_configuration(*sides).differing,
                environment=compare_environment(*sides).differing,
            )
        )
    return History(
        title=title,
        metric=metric,
        unit=unit_of(metric),
        points=tuple(
            Point(run=one.run.name, created=one.created, value=value)
            for one, value in zip(told, values, strict=True)
        ),
        changes=tuple(changes),
        left_out=tuple(left_out),
    )


def _side(one: DatedRun) -> Side:
    return Side(name=one.run.name, runs=(one.run,))


def _center(values: Sequence[float], logs: bool) -> float:
    mean = math.fsum(values) / len(values)
    return math.exp(mean) if logs else mean
