"""Pages of runs and studies: which runs a place holds, what is known of each, and the page's text.

Reads the figures that sealing leaves; a run's tables are read when its curves are thinned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainload.api.analysing import collect_measured, measure_run
from trainload.api.loading import Run, load
from trainload.errors import TrainloadError
from trainload.record.layout import MANIFEST
from trainload.report.wording import clean_text

if TYPE_CHECKING:
    from trainload.analyse.attribution import RunLayers
    from trainload.analyse.study import Measured, PlannedCell, TidyStudy
    from trainload.report.many.view import ManyRuns, ShownRun

MOST_LAYERED = 24
"""Runs of which layers are read."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What some places hold."""

    measured: list[Measured]
    paths: list[Path]
    planned: list[PlannedCell]
    studies: list[str]
    """Names of the studies among the places."""


def holds_runs(place: Path) -> bool:
    """Whether a place is a study's folder or a folder of runs, and no run itself."""
    from trainload.study.folder import CELLS, STUDY
    from trainload.study.ledger import RUNS

    if not place.is_dir() or (place / MANIFEST).is_file():
        return False
    if any((place / name).exists() for name in (STUDY, CELLS)):
        return True
    folders = (place, place / RUNS) if (place / RUNS).is_dir() else (place,)
    return any((inner / MANIFEST).is_file() for folder in folders for inner in folder.iterdir())


def find_runs(places: Sequence[Path]) -> Found:
    """The runs of run directories, studies and folders of runs, in the order they are named.

    A place that is no run has its line too, with what is wrong.
    """
    measured: list[Measured] = []
    paths: list[Path] = []
    planned: list[PlannedCell] = []
    studies: list[str] = []
    for place in places:
        if holds_runs(place):
            found, cells = collect_measured(place)
            measured += [run for _, run in found]
            paths += [path for path, _ in found]
            planned += cells
            told = {run.figures.study for _, run in found if run.figures is not None} - {None}
            if cells or not found or told:
                studies.append(", ".join(sorted(map(str, told))) or place.resolve().name)
        else:
            measured.append(measure_run(place, {}))
            paths.append(place)
    return Found(measured=measured, paths=paths, planned=planned, studies=studies)


def many_runs(found: Found) -> ManyRuns:
    """What the page of these runs shows."""
    from trainload.analyse.study import overview_of, tidy_study
    from trainload.report.many.view import ManyRuns, ShownRun

    tidy = tidy_study(found.measured, found.planned, fewest=True)
    opened, problems = _open(found.paths)
    notes: list[str] = []
    layers = _layers(opened, notes, problems)
    names = level_names(tidy, opened) if found.studies else telling_names(found.measured)
    runs: list[ShownRun] = [
        ShownRun(
            key=path.name, name=name, run=run, figures=one.figures, reason=one.reason, layers=traced
        )
        for path, name, run, one, traced in zip(
            found.paths, names, opened, found.measured, layers, strict=True
        )
    ]
    title = ", ".join(clean_text(name) for name in found.studies)
    return ManyRuns(
        title=title or f"{len(runs)} runs",
        is_study=bool(found.studies),
        runs=runs,
        tidy=tidy,
        overview=overview_of(tidy),
        planned=len(found.planned),
        problems=problems,
        notes=notes,
    )


def telling_names(measured: Sequence[Measured]) -> list[str]:
    """For each run the shortest name that tells it from the others."""
    from trainload.analyse.naming import distinguish_facts
    from trainload.analyse.study.figures import told_facts

    figures = [one.figures for one in measured]
    facts = [
        {"model": one.run} if found is None else told_facts(found)
        for one, found in zip(measured, figures, strict=True)
    ]
    created = [("" if found is None else found.created) or "" for found in figures]
    orders = [(when, one.run) for when, one in zip(created, measured, strict=True)]
    return [clean_text(name) for name in distinguish_facts(facts, orders)]


def level_names(tidy: TidyStudy, runs: Sequence[Run | None]) -> list[str]:
    """For each run of a study its levels, and its repetition."""
    counts = tidy.frame["cell"].value_counts()
    several = {cell: count > 1 for cell, count in counts.iter_rows()}
    columns = ("run", "cell", "repetition", *tidy.factors)
    names = []
    for run, (key, cell, repetition, *levels) in zip(
        runs, tidy.frame.select(columns).iter_rows(), strict=True
    ):
        known = [clean_text(level) for level in levels if level is not None]
        if not known and run is not None and run.manifest.model_name:
            known = [clean_text(run.manifest.model_name)]
        number = f" #{repetition + 1}" if several.get(cell) else ""
        names.append(" · ".join(known) + number if known else clean_text(key))
    return names


def _open(paths: Sequence[Path]) -> tuple[list[Run | None], list[tuple[str, str]]]:
    runs: list[Run | None] = []
    problems = []
    for path in paths:
        try:
            runs.append(load(path))
        except TrainloadError as error:
            runs.append(None)
            problems.append((path.name, str(error)))
    return runs, problems


def _layers(
    runs: Sequence[Run | None], notes: list[str], problems: list[tuple[str, str]]
) -> list[RunLayers | None]:
    """The attribution of the first runs that were traced; what cannot be read is a problem."""
    found: list[RunLayers | None] = []
    read = 0
    for run in runs:
        traced = run is not None and run.manifest.layers is not None
        if run is None or not traced or read == MOST_LAYERED:
            found.append(None)
            continue
        read += 1
        try:
            found.append(run.attribution)
        except TrainloadError as error:
            found.append(None)
            problems.append((run.path.name, str(error)))
    traced_runs = sum(run is not None and run.manifest.layers is not None for run in runs)
    if traced_runs > read:
        notes.append(f"Layers of {read} of {traced_runs} traced runs are shown.")
    return found
