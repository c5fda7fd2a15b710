"""Runs and studies below a folder, from the small figures that sealing leaves.

Finds, filters and sorts; draws nothing. A run that cannot be read keeps its place, with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from trainload.errors import TrainloadError, UsageError
from trainload.record import open_run
from trainload.record.figures import RunFigures, load_figures
from trainload.record.layout import MANIFEST

MOST_FOLDERS = 20_000
"""Folders beside runs that are looked into; of more, the rest is said to be left out."""
DEEPEST = 8
_NO_FILES = ("/proc", "/sys", "/dev")
_OWN = ("name", "outcome", "created", "study", "imported", "path")


@dataclass(frozen=True, kw_only=True)
class ListedRun:
    """One run as a line; `problem` says why it cannot be read, where that is so."""

    name: str
    path: Path
    outcome: str | None = None
    outcome_reason: str | None = None
    created: str | None = None
    study: str | None = None
    imported: str | None = None
    """The kind of file it was imported from; None where it was measured."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    problem: str | None = None
    kept: bool = False
    """Whether its figures were kept at sealing; without them only run.json was asked."""

    def value(self, key: str) -> Any:
        """What stands under a key: of the run itself, a fact or a metric; None where nothing."""
        own = getattr(self, key) if key in _OWN else None
        return own if own is not None else self.facts.get(key, self.metrics.get(key))

    def to_json(self) -> dict[str, Any]:
        """A JSON-able copy."""
        own = {name: getattr(self, name) for name in _OWN}
        told = {"outcome_reason": self.outcome_reason, "problem": self.problem}
        facts, metrics = dict(self.facts), dict(self.metrics)
        return {**own, "path": str(self.path), **told, "facts": facts, "metrics": metrics}


@dataclass(frozen=True, kw_only=True)
class ListedStudy:
    """One study as a line; counts are of runs."""

    name: str
    path: Path
    planned: int | None = None
    done: int | None = None
    failed: int | None = None
    running: int | None = None
    run_s: float | None = None
    energy_j: float | None = None
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        """A JSON-able copy."""
        return {**self.__dict__, "path": str(self.path)}


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What a folder holds."""

    runs: tuple[ListedRun, ...]
    studies: tuple[ListedStudy, ...]
    left_out: int = 0
    """Runs that the filters leave out."""
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The document of `ls --json`."""
        return {
            "runs": [run.to_json() for run in self.runs],
            "studies": [study.to_json() for study in self.studies],
            "left_out": self.left_out,
            "notes": list(self.notes),
        }


def list_runs(
    place: str | Path = ".",
    *,
    where: Mapping[str, str] | None = None,
    sort: str | None = None,
    reverse: bool = False,
) -> Listing:
    """The runs and studies below a folder; UsageError where it is none.

    `where` keeps runs whose fact, outcome or study fits a text, in which * stands for anything.
    `sort` names a fact or a metric; runs without it come last.
    """
    from trainload.analyse.naming import distinguish_facts

    folder = Path(place)
    if not folder.is_dir():
        raise UsageError(f"{place} is no folder; name one that holds runs")
    runs, studies, notes = _find(folder)
    whole = [_read_run(path) for path in runs]
    kept = [run for run in whole if _fits(run.value, where or {})]
    if where:
        _check_keys(where, whole, "filter")
        studies = []
    bare = sum(not run.kept and run.outcome is not None for run in kept)
    if bare:
        notes.append(f"{bare:,} runs keep no figures yet; trainload analyse works them out")
    names = distinguish_facts(
        [run.facts or {"model": run.name} for run in kept],
        [(run.created or "", str(run.path)) for run in kept],
    )
    found = [_named(run, name) for run, name in zip(kept, names, strict=True)]
    if sort is not None:
        _check_keys((sort,), whole, "sort by")
    return Listing(
        runs=tuple(_sorted(found, sort, reverse)),
        studies=tuple(_read_study(path) for path in studies),
        left_out=len(whole) - len(kept),
        notes=tuple(notes),
    )


def parse_filters(words: Iterable[str]) -> dict[str, str]:
    """KEY=VALUE words as a mapping; UsageError for another."""
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageError(f"{word}: write KEY=VALUE, such as model=resnet18, or one folder")
        found[key] = value
    return found


def fits(value: Any, asked: str) -> bool:
    """Whether a value is the one asked for; * in it stands for anything, capitals do not count."""
    from trainload.analyse.study.tidy import level_text

    return value is not None and fnmatchcase(level_text(value).lower(), asked.lower())


def _fits(value_of: Callable[[str], Any], where: Mapping[str, str]) -> bool:
    return all(fits(value_of(key), asked) for key, asked in where.items())


def _check_keys(keys: Iterable[str], runs: Sequence[ListedRun], what: str) -> None:
    known = {*_OWN, *(name for run in runs for name in (*run.facts, *run.metrics))}
    for key in keys:
        if runs and key not in known:
            told = dict.fromkeys(name for run in runs for name in run.facts)
            listed = ", ".join([*list(told)[:12], *_OWN])
            raise UsageError(f"cannot {what} {key}: no run tells it; known: {listed}, and metrics")


def _find(folder: Path) -> tuple[list[Path], list[Path], list[str]]:
    """Run directories and studies below a folder, in order of their paths; links are not followed.

    A run directory is not looked into.
    """
    from trainload.study.folder import CELLS

    runs: list[Path] = []
    studies: list[Path] = []
    seen, deep = 0, 0
    waiting = [(folder, 0)]
    while waiting and seen < MOST_FOLDERS:
        here, depth = waiting.pop()
        if str(here) in _NO_FILES:
            continue
        try:
            with os.scandir(here) as entries:
                inside = [(e.name, e.is_dir(follow_symlinks=False)) for e in entries]
        except OSError:
            continue  # a folder that may not be read holds nothing that could be listed
        names = {name for name, _ in inside}
        if MANIFEST in names:
            runs.append(here)
            continue
        seen += 1
        if CELLS in names:
            studies.append(here)
        further = [here / name for name, is_dir in inside if is_dir and not name.startswith(".")]
        if depth >= DEEPEST:
            deep += len(further)
        else:
            waiting += [(path, depth + 1) for path in further]
    notes = []
    if waiting:
        notes.append(f"{seen:,} folders were looked into; the rest is left out: name a smaller one")
    if deep:
        notes.append(f"{deep:,} folders lie deeper than {DEEPEST} levels and were not looked into")
    return sorted(runs), sorted(studies), notes


def _read_run(path: Path) -> ListedRun:
    from trainload.analyse.study.figures import told_facts

    try:
        figures = load_figures(path) or _figures_of_manifest(path)
    except TrainloadError as error:
        return ListedRun(name=path.name, path=path, problem=" ".join(str(error).split()))
    return ListedRun(
        name=path.name,
        path=path,
        outcome=figures.outcome,
        outcome_reason=figures.outcome_reason,
        created=figures.created,
        study=figures.study,
        imported=figures.imported,
        facts=told_facts(figures),
        metrics=figures.metrics,
        kept=bool(figures.run_sha256),
    )


def _figures_of_manifest(path: Path) -> RunFigures:
    """What run.json alone tells: looking at a folder closes, seals and works out nothing in it."""
    from trainload.analyse.study.figures import facts_of

    manifest = open_run(path, seal=False).manifest
    clock, cell = manifest.clock, manifest.study
    return RunFigures(
        run_sha256="",
        run_id=manifest.run_id or path.name,
        created=manifest.created,
        imported=None if manifest.imported is None else manifest.imported.kind,
        outcome=manifest.outcome,
        outcome_reason=manifest.outcome_reason,
        study=None if cell is None else cell.study,
        factors={} if cell is None else dict(cell.factors),
        facts=dict(facts_of(manifest)),
        metrics={}
        if clock is None or clock.end_s is None
        else {"duration_s": clock.end_s - clock.start_s},
    )


def _named(run: ListedRun, name: str) -> ListedRun:
    from dataclasses import replace

    return replace(run, name=name)


def _sorted(runs: Sequence[ListedRun], key: str | None, reverse: bool) -> Iterator[ListedRun]:
    if key is None:
        yield from reversed(runs) if reverse else runs
        return
    known = [run for run in runs if run.value(key) is not None]
    number = all(isinstance(run.value(key), int | float) for run in known)
    known.sort(key=lambda run: run.value(key) if number else str(run.value(key)), reverse=reverse)
    yield from known
    yield from (run for run in runs if run.value(key) is None)


def _read_study(path: Path) -> ListedStudy:
    from trainload.study.status import read_status

    try:
        status = read_status(path)
    except TrainloadError as error:
        return ListedStudy(name=path.name, path=path, problem=" ".join(str(error).split()))
    return ListedStudy(
        name=status.name,
        path=path,
        planned=status.planned,
        done=status.done,
        failed=status.failed,
        running=status.running,
        run_s=status.run_s,
        energy_j=status.energy_j,
    )
