"""Studies and folders of runs as tables: which runs count, then what analyse makes of them.

Reads the small figures that sealing leaves, and a run's own tables only where those are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainload.api.loading import load_all, load_run_figures
from trainload.errors import TrainloadError, UsageError

if TYPE_CHECKING:
    import polars as pl

    from trainload.analyse.study import Measured, PlannedCell, TidyStudy

_PREFERRED = ("step_s", "training_s", "duration_s")


@dataclass(frozen=True, kw_only=True)
class StudyTables:
    """What a study found, as frames."""

    metric: str
    rule: str
    """How the best was chosen, in words."""
    runs: pl.DataFrame
    """One row a run: cell, factors, whether and why not it counts, every metric."""
    cells: pl.DataFrame
    """One row for each cell and metric."""
    effects: pl.DataFrame
    interactions: pl.DataFrame | None
    """None where the cells are no full grid with repetitions."""
    best: pl.DataFrame
    missing: pl.DataFrame

    def frames(self) -> dict[str, pl.DataFrame]:
        """The tables by name; those that do not exist are left out."""
        named = {
            "runs": self.runs,
            "cells": self.cells,
            "effects": self.effects,
            "interactions": self.interactions,
            "best": self.best,
            "missing": self.missing,
        }
        return {name: frame for name, frame in named.items() if frame is not None}


def analyse(
    place: str | Path,
    *,
    metric: str | None = None,
    base: Mapping[str, str] | None = None,
    highest: bool | None = None,
) -> StudyTables:
    """The tables of a study's folder, or of any folder or pattern of run directories.

    Effects, interactions and the best are of one metric. `base` names levels to compare with, where
    the most frequent ones are not meant.
    """
    from trainload.analyse import study as tables

    found = collect_study(place)
    chosen = _choose_metric(found, metric)
    _check_base(found, base or {})
    up = tables.higher_is_better(chosen) if highest is None else highest
    return StudyTables(
        metric=chosen,
        rule=f"{'highest' if up else 'lowest'} median {chosen}",
        runs=found.frame,
        cells=tables.cell_table(found),
        effects=tables.effect_table(found, chosen, base),
        interactions=tables.interaction_table(found, chosen),
        best=tables.best_table(found, chosen, highest=up),
        missing=found.missing,
    )


def collect_study(place: str | Path) -> TidyStudy:
    """All runs of a place in one frame; UsageError where it holds none."""
    from trainload.analyse.study import tidy_study

    return tidy_study(*read_place(place))


def read_place(place: str | Path) -> tuple[list[Measured], list[PlannedCell]]:
    """The runs of a place and, of a study, its cells; UsageError where it holds neither."""
    measured, planned = collect_measured(place)
    if not measured and not planned:
        raise UsageError(f"{place} holds no runs; name a study's folder or one of run directories")
    return [run for _, run in measured], planned


def collect_measured(
    place: str | Path,
) -> tuple[list[tuple[Path, Measured]], list[PlannedCell]]:
    """The runs of a place with where each lies and why it does not count, and its planned cells."""
    folder = Path(place)
    verdicts = dict(_verdicts(folder))
    planned = list(_planned_cells(folder, verdicts))
    return measured_runs(place, verdicts), planned


def measured_runs(
    place: str | Path,
    verdicts: Mapping[str, tuple[str, str | None]] | None = None,
    *,
    keep: bool = True,
) -> list[tuple[Path, Measured]]:
    """The runs of a study's folder, of any folder or pattern, or one run, and whether each counts.

    `verdicts` are those of the study's journal where the caller has read it. Without `keep` nothing
    is written into the runs.
    """
    from trainload.study.ledger import RUNS

    if verdicts is None:
        verdicts = dict(_verdicts(Path(place)))
    inner = Path(place) / RUNS
    if inner.is_symlink():
        raise UsageError(
            f"{inner} is a link, and no link in a study's folder is followed; name its target"
        )
    paths = load_all(place).paths
    if inner.is_dir():
        paths = tuple(path for path in load_all(inner).paths if not path.is_symlink())
    told = {run: verdict for run, (_, verdict) in verdicts.items()}
    return [(path, measure_run(path, told, keep=keep)) for path in paths]


def measure_run(path: Path, verdicts: Mapping[str, str | None], *, keep: bool = True) -> Measured:
    """One run's figures, and why it does not count where it does not.

    Without `keep` nothing is written into the run.
    """
    from trainload.analyse.study import Measured

    try:
        figures = load_run_figures(path, keep=keep)
    except TrainloadError as error:
        return Measured(run=path.name, figures=None, reason=f"cannot be read: {error}")
    reason = verdicts.get(path.name)
    if figures.outcome is None:
        reason = "still running"
    elif figures.outcome != "completed":
        reason = ": ".join(filter(None, (figures.outcome, figures.outcome_reason)))
    return Measured(run=path.name, figures=figures, reason=reason)


def _verdicts(folder: Path) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """Cell of each run that the study's journal tells of, and why it does not count if not."""
    from trainload.study.ledger import read_ledger

    ended, refused, _ = read_ledger(folder, figures=())
    for entry in (*ended.values(), *refused):
        said = "; ".join(entry.doubts) or entry.reason or entry.outcome
        reason = None if entry.verdict == "counted" else f"{entry.verdict}: {said}"
        yield entry.run or f"{entry.cell} never began", (entry.cell, reason)


def _planned_cells(
    folder: Path, verdicts: Mapping[str, tuple[str, str | None]]
) -> Iterator[PlannedCell]:
    from trainload.analyse.study import PlannedCell
    from trainload.study.folder import CELLS, read_cells

    reasons = {cell: reason for cell, reason in verdicts.values() if reason}
    for cell, factors in read_cells(folder) if (folder / CELLS).is_file() else ():
        yield PlannedCell(
            identity=cell.identity, factors=factors, reason=reasons.get(cell.identity)
        )


def _choose_metric(study: TidyStudy, metric: str | None) -> str:
    counted = study.counted
    known = [m for m in study.metrics if counted[m].count()]
    if metric is None:
        metric = next((m for m in _PREFERRED if m in known), known[0] if known else None)
    if metric is None:
        raise UsageError("no run of it counts, so there is nothing to compare; see --json: missing")
    if metric not in known:
        raise UsageError(f"no run tells {metric}; known: {', '.join(known)}")
    return metric


def _check_base(study: TidyStudy, base: Mapping[str, str]) -> None:
    for name, level in base.items():
        if name not in study.factors:
            known = ", ".join(study.factors) or "none"
            raise UsageError(f"--base {name}={level}: no such factor; factors: {known}")
        levels = study.frame[name].drop_nulls().unique().sort().to_list()
        if level not in levels:
            listed = ", ".join(levels)
            raise UsageError(f"--base {name}={level}: no such level; {name} has {listed}")
