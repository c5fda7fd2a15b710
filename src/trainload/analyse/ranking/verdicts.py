"""The best level of each contest by one metric: by how much, and whether that is certain.

The same tests as in the tables of studies (docs/statistics.md): Welch's on logarithms where all
values are positive, all contests of a metric corrected together by Holm's procedure.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trainload.analyse.ranking.groups import Groups, Levels
from trainload.analyse.study.best import higher_is_better
from trainload.analyse.study.contrasts import mean_difference
from trainload.analyse.study.effects import judge

Standing = Literal["decided", "not decided", "by mean only", "tie", "no contest", "missing"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One contest: the best by median, and how it stands to the next."""

    contest: Levels
    metric: str
    standing: Standing
    best: str | None = None
    value: float | None = None
    runs: int = 0
    """Of the best."""
    next: str | None = None
    next_value: float | None = None
    next_runs: int = 0
    difference: float | None = None
    """Of the two values, never negative."""
    difference_fraction: float | None = None
    """As a share of the next one's value; None where that is 0."""
    low_fraction: float | None = None
    """Interval of best over next minus one, at the level of its verdict; None without one."""
    high_fraction: float | None = None
    undecided: tuple[str, ...] = ()
    """Levels that cannot be told from the best."""
    absent: tuple[str, ...] = ()
    """Levels without a value."""


def judge_contests(groups: Groups, metric: str, *, highest: bool | None = None) -> list[Verdict]:
    """A verdict for each contest, in their order."""
    up = higher_is_better(metric) if highest is None else highest
    told = {
        contest: {
            level: values
            for level in groups.levels
            if (values := groups.values(contest, level, metric))
        }
        for contest in groups.contests
    }
    logs = all(v > 0 for cells in told.values() for values in cells.values() for v in values)
    orders: list[list[str]] = []
    contrasts = []
    for cells in told.values():
        medians = {level: statistics.median(values) for level, values in cells.items()}
        order = sorted(cells, key=medians.__getitem__, reverse=up)
        orders.append(order)
        for other in order[1:]:
            pair = (_scaled(cells[order[0]], logs), _scaled(cells[other], logs))
            contrasts.append(mean_difference([pair]))
    judged = iter(judge(contrasts, logs=logs))
    return [
        _verdict(contest, metric, told[contest], order, [next(judged) for _ in order[1:]], groups)
        for contest, order in zip(told, orders, strict=True)
    ]


def _scaled(values: Sequence[float], logs: bool) -> list[float]:
    return [math.log(value) for value in values] if logs else list(values)


def _verdict(
    contest: Levels,
    metric: str,
    cells: dict[str, list[float]],
    order: Sequence[str],
    judged: Sequence[dict[str, Any]],
    groups: Groups,
) -> Verdict:
    absent = tuple(level for level in groups.levels if level not in cells)
    if not order:
        return Verdict(contest=contest, metric=metric, standing="missing", absent=absent)
    best = order[0]
    value = statistics.median(cells[best])
    alone = Verdict(
        contest=contest,
        metric=metric,
        standing="no contest",
        best=best,
        value=value,
        runs=len(cells[best]),
        absent=absent,
    )
    if len(order) == 1:
        return alone
    after = order[1]
    beside = statistics.median(cells[after])
    difference = abs(value - beside)
    ratio = judged[0]["scale"] == "ratio - 1"
    unsure = [
        level
        for level, row in zip(order[1:], judged, strict=True)
        if row["verdict"] == "no difference shown"
    ]
    silent = any(row["verdict"] == "says nothing" for row in judged)
    standing: Standing = "not decided" if unsure else "by mean only" if silent else "decided"
    if difference == 0:
        standing = "tie"
    return Verdict(
        **{
            **alone.__dict__,
            "standing": standing,
            "best": None if standing == "tie" else best,
            "next": None if standing == "tie" else after,
            "next_value": beside,
            "next_runs": len(cells[after]),
            "difference": difference,
            "difference_fraction": difference / abs(beside) if beside else None,
            "low_fraction": judged[0]["low"] if ratio else None,
            "high_fraction": judged[0]["high"] if ratio else None,
            "undecided": tuple(unsure),
        }
    )
