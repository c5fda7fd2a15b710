"""Pareto fronts: cells that no other one beats in time, energy and accuracy at once; by medians."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainload.analyse.ranking.groups import Groups, Levels

_TIMES = ("duration_s", "training_s", "step_s")
_SCORES = ("validation_accuracy", "mean_validation_accuracy", "best_accuracy")
EVERYTHING = "all"


@dataclass(frozen=True, kw_only=True)
class FrontPoint:
    """One cell among those it is compared with."""

    over: str
    """Which cells: all, or those of one model."""
    contest: Levels
    level: str
    values: Mapping[str, float]
    """Time and, where told, energy and accuracy; the same for all points of one front."""
    on_front: bool
    beaten_by: str | None
    """One cell that is as good in everything and better in something."""


def pareto_fronts(groups: Groups) -> list[FrontPoint]:
    """The front of all cells and of each model's; [] where fewer than two figures are told."""
    axes = _axes(groups)
    if len(axes) < 2:
        return []
    points: list[tuple[Levels, str, dict[str, float]]] = []
    for contest in groups.contests:
        for level in groups.levels:
            values = {axis: groups.median(contest, level, axis) for axis in axes}
            known = {axis: value for axis, value in values.items() if value is not None}
            if len(known) == len(axes):
                points.append((contest, level, known))
    found = []
    if len(groups.within) > 1:
        for name in dict.fromkeys(contest[0] for contest, _, _ in points):
            mine = [point for point in points if point[0][0] == name]
            found += _front(f"{groups.within[0]}={name}", mine)
    return [*found, *_front(EVERYTHING, points)]


def _axes(groups: Groups) -> tuple[str, ...]:
    """The first time, the energy and the first score that cells tell."""
    told = {
        m
        for cells in groups.contests.values()
        for r in cells.values()
        for x in r
        for m in x.metrics
    }
    chosen = [
        next((m for m in names if m in told), None) for names in (_TIMES, ("energy_j",), _SCORES)
    ]
    return tuple(name for name in chosen if name is not None)


def _front(over: str, points: Sequence[tuple[Levels, str, dict[str, float]]]) -> list[FrontPoint]:
    costs = [
        tuple(-value if axis in _SCORES else value for axis, value in values.items())
        for _, _, values in points
    ]
    found = []
    for at, (contest, level, values) in enumerate(points):
        beater = next((n for n, other in enumerate(costs) if _beats(other, costs[at])), None)
        found.append(
            FrontPoint(
                over=over,
                contest=contest,
                level=level,
                values=values,
                on_front=beater is None,
                beaten_by=None
                if beater is None
                else " ".join((points[beater][1], *points[beater][0])),
            )
        )
    return found


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))
