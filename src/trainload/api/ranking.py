"""`trainload.rank`: which framework, or level of any other factor, is best, cell by cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainload.api.analysing import read_place
from trainload.api.listing import fits
from trainload.errors import UsageError

if TYPE_CHECKING:
    from trainload.analyse.ranking import Ranking
    from trainload.analyse.study import Measured, PlannedCell


def rank(
    places: str | Path | Iterable[str | Path],
    *,
    by: str = "framework",
    within: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    where: Mapping[str, str] | None = None,
) -> Ranking:
    """The ranking of the runs of some places: run directories, folders of them, studies.

    `within` names what a contest is equal in, a model in a setting where nothing is said; `where`
    keeps runs by their facts, as in `list_runs`. UsageError where there is nothing to rank.
    """
    from trainload.analyse.ranking import rank_runs

    runs: list[Measured] = []
    planned: list[PlannedCell] = []
    for place in [places] if isinstance(places, str | Path) else places:
        found, cells = read_place(place)
        runs += found
        planned += cells
    if where:
        runs, planned = _kept(runs, planned, where)
    return rank_runs(runs, planned, by=by, within=within, metrics=metrics)


def _kept(
    runs: Sequence[Measured], planned: Sequence[PlannedCell], where: Mapping[str, str]
) -> tuple[list[Measured], list[PlannedCell]]:
    from trainload.analyse.study.figures import told_facts

    facts = [{} if run.figures is None else told_facts(run.figures) for run in runs]
    for key in where:
        if not any(key in found for found in facts):
            listed = ", ".join(list(dict.fromkeys(name for found in facts for name in found))[:15])
            raise UsageError(f"cannot filter {key}: no run tells it; known: {listed}")
    kept = [
        run
        for run, found in zip(runs, facts, strict=True)
        if all(fits(found.get(key), asked) for key, asked in where.items())
    ]
    cells = [
        cell
        for cell in planned
        if all(key not in cell.factors or fits(cell.factors[key], a) for key, a in where.items())
    ]
    if not kept:
        raise UsageError("no run fits the filters; see trainload ls")
    return kept, cells
