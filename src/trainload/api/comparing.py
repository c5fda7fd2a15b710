"""`trainload.compare`: sides found on disk, their runs read, and analyse's answer.

A side is a run directory, a folder or pattern of runs, a study's folder, or a cell of any of these:
`studies/x:batch_size=64,precision=bf16`.
"""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainload.analyse.compare import Comparison as ComparedSides
from trainload.api.analysing import measured_runs
from trainload.api.loading import Run, Runs, load
from trainload.errors import UsageError
from trainload.record import load_manifest

if TYPE_CHECKING:
    from trainload.analyse.compare import ComparedRun, Known, Side
    from trainload.analyse.compare.operations import Named
    from trainload.analyse.study import Measured
    from trainload.record.figures import RunFigures

Place = str | Path | Run | Runs
_ENOUGH = 3
"""Runs of a side from which on nobody else's spread is asked for."""


@dataclass(frozen=True, kw_only=True)
class Comparison(ComparedSides):
    """One side against the reference, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        from trainload.report.cards import render_comparison_card

        return render_comparison_card(self)


def compare(
    a: Place,
    b: Place,
    *,
    margin: float | None = None,
    store: str | Path | None = None,
    first: Collection[str] = (),
    layers: bool = True,
) -> Comparison:
    """B against the reference A: metrics with verdicts, what differed, the layers that explain it.

    `margin` is the relative difference that does not matter. The spread behind single runs is that
    of other runs of the workload in `store`, else in the folders beside them. `first` names metrics
    that are judged with the step time rather than with all others; `layers=False` reads no traces.
    """
    return compare_all(a, [b], margin=margin, store=store, first=first, layers=layers)[0]


def compare_all(
    reference: Place,
    others: Sequence[Place],
    *,
    margin: float | None = None,
    store: str | Path | None = None,
    first: Collection[str] = (),
    layers: bool = True,
) -> list[Comparison]:
    """Each of some sides against the reference, as `compare`."""
    from trainload.analyse.compare import MARGIN, compare_sides
    from trainload.analyse.compare.operations import name_operations

    chosen = MARGIN if margin is None else margin
    if not 0 <= chosen < 1:
        raise UsageError(f"a margin of {chosen:g} cannot be meant; give one from 0 to 1, as 0.03")
    found = _named_apart([_find_side(place, layers=layers) for place in (reference, *others)])
    known = _known([side for side, _ in found], [paths for _, paths in found], store)
    (a, a_paths), *rest = found
    compared = [compare_sides(a, b, known, margin=chosen, first=first) for b, _ in rest]
    if layers:
        named = _operations(a_paths)
        compared = [
            name_operations(one, named, _operations(paths) if named else ())
            for one, (_, paths) in zip(compared, rest, strict=True)
        ]
    return [_shown(one) for one in compared]


def _shown(found: ComparedSides) -> Comparison:
    """The same comparison with a face."""
    return Comparison(**{one.name: getattr(found, one.name) for one in fields(found)})


def find_runs(place: Place) -> tuple[str, list[tuple[Path, Measured]]]:
    """A side's name and its runs, also those that do not count; UsageError where it has none."""
    if isinstance(place, Run):
        return place.path.name, measured_runs(place.path)
    if isinstance(place, Runs):
        found = [one for path in place.paths for one in measured_runs(path)]
        if not found:
            raise UsageError("an empty list of runs cannot be compared")
        return found[0][0].parent.name or "runs", found
    text = str(place)
    where, levels = _split_cell(text)
    found = measured_runs(where)
    if not found:
        raise UsageError(f"{where} holds no runs; name a run, a folder of runs or a study's folder")
    if levels:
        chosen = [(path, run) for path, run in found if _is_of(run, levels)]
        if not chosen:
            raise UsageError(f"{text}: no run of {where} is so; {_known_levels(found, levels)}")
        found = chosen
    return text.rstrip("/").rpartition("/")[2] if len(found) == 1 else text, found


def _split_cell(text: str) -> tuple[str, dict[str, str]]:
    """The place and the levels of `PLACE:NAME=LEVEL,NAME=LEVEL`; a path that exists is one."""
    where, colon, words = text.rpartition(":")
    if not colon or "=" not in words or Path(text).exists() or glob.glob(text):  # noqa: PTH207
        return text, {}
    levels = {}
    for word in words.split(","):
        name, equals, level = word.partition("=")
        if not equals or not name:
            raise UsageError(f"{text}: write a cell as PLACE:NAME=LEVEL,NAME=LEVEL")
        levels[name.strip()] = level.strip()
    return where, levels


def _is_of(run: Measured, levels: dict[str, str]) -> bool:
    from trainload.analyse.study.tidy import level_text

    if run.figures is None:
        return False
    told = {**run.figures.facts, **run.figures.factors}
    return all(name in told and level_text(told[name]) == lv for name, lv in levels.items())


def _known_levels(found: Iterable[tuple[Path, Measured]], levels: dict[str, str]) -> str:
    from trainload.analyse.study.tidy import level_text

    figures = [run.figures for _, run in found if run.figures is not None]
    told = [{**one.facts, **one.factors} for one in figures]
    for name in levels:
        known = sorted({level_text(one[name]) for one in told if name in one})
        if not known:
            every = sorted({name for one in told for name in one})
            return f"nothing is called {name}; known: {', '.join(every)}"
        if levels[name] not in known:
            return f"{name} is one of {', '.join(known)}"
    return "no run has all of these levels"


def _find_side(place: Place, *, layers: bool) -> tuple[Side, list[Path]]:
    from trainload.analyse.compare import Side

    name, found = find_runs(place)
    counted = [(path, run) for path, run in found if run.reason is None and run.figures]
    left_out = tuple(f"{run.run} ({run.reason})" for _, run in found if run.reason is not None)
    if not counted:
        raise UsageError(f"{name}: no run of it counts: {', '.join(left_out[:3])}")
    runs = tuple(
        read_compared(path, run.figures, layers=layers) for path, run in counted if run.figures
    )
    return Side(name=name, runs=runs, left_out=left_out), [path for path, _ in counted]


def _named_apart(found: list[tuple[Side, list[Path]]]) -> list[tuple[Side, list[Path]]]:
    """The sides under what differs in their names: the folders that all share are left out."""
    heads = [side.name.split("/") for side, _ in found]
    shared = 0
    while all(len(one) > shared + 1 and one[shared] == heads[0][shared] for one in heads):
        shared += 1
    return [
        (replace(side, name="/".join(one[shared:])), paths)
        for (side, paths), one in zip(found, heads, strict=True)
    ]


def read_compared(path: Path, figures: RunFigures, *, layers: bool) -> ComparedRun:
    """One run with its circumstances and, where asked and traced, the parts of its step."""
    from trainload.analyse.attribution.machine import find_machine
    from trainload.analyse.compare import ComparedRun, parts_of, surroundings_of

    throttled = None
    if any(name.endswith("_throttle_bits") for name in figures.metrics):
        throttled = find_machine(load(path)).throttled_fraction or 0.0
    attribution = load(path).attribution if layers else None
    ranks = () if attribution is None else attribution.ranks
    return ComparedRun(
        name=str(path),
        figures=figures,
        surroundings=surroundings_of(load_manifest(path), figures, throttled),
        parts=parts_of(ranks[0], figures.metrics.get("step_s")) if ranks else None,
    )


def _operations(paths: Sequence[Path]) -> list[Named]:
    """The operations of some runs of a side, by part; of none that was not traced."""
    from trainload.analyse.attribution.operations import operation_times
    from trainload.analyse.compare.operations import MOST_RUNS, by_part

    traces = [trace for path in paths if (trace := load(path).traces.get(0)) is not None]
    return [by_part(operation_times(trace)) for trace in traces[:MOST_RUNS]]


def _known(
    sides: Sequence[Side], paths: Sequence[Sequence[Path]], store: str | Path | None
) -> Known:
    """What other runs tell of the spread; nothing is read where each side has runs enough."""
    from trainload.analyse.compare import Known, identity_of
    from trainload.analyse.compare.cells import CONTENT

    runs = [run.figures for side in sides for run in side.runs]
    beside = dict.fromkeys(_store_of(path) for one in paths for path in one)
    places: list[str | Path] = [*beside] if store is None else [store]
    where = ", ".join(Path(place).name for place in places)
    wanted = {identity_of(one) for one in runs}
    studies = {one.study for one in runs if one.study is not None}
    if store is None and all(_is_enough(side) for side in sides):
        return Known(where=where)
    taken = {path.resolve() for one in paths for path in one}
    workloads: dict[str, dict[tuple[object, ...], list[RunFigures]]] = {}
    cells: dict[str, dict[tuple[object, ...], list[RunFigures]]] = {}
    for folder, figures in _beside(places, taken):
        identity = identity_of(figures)
        # Who keeps runs in two folders, or changed the code, says that they may differ.
        version = folder, figures.facts.get(CONTENT), figures.facts.get("framework_version")
        if identity in wanted:
            workloads.setdefault(identity, {}).setdefault(version, []).append(figures)
        if figures.study in studies and figures.study is not None:
            key = figures.cell, *version
            cells.setdefault(figures.study, {}).setdefault(key, []).append(figures)
    return Known(
        workloads={name: list(groups.values()) for name, groups in workloads.items()},
        studies={name: list(groups.values()) for name, groups in cells.items()},
        where=where,
    )


def _is_enough(side: Side) -> bool:
    """Whether every workload of a side has runs enough to tell its own spread."""
    from trainload.analyse.compare import identity_of

    counts: dict[str, int] = {}
    for run in side.runs:
        identity = identity_of(run.figures)
        counts[identity] = counts.get(identity, 0) + 1
    return min(counts.values()) >= _ENOUGH


def _beside(
    places: Iterable[str | Path], taken: Collection[Path]
) -> Iterator[tuple[Path, RunFigures]]:
    """Folder and figures of runs that count and are not compared themselves."""
    for place in places:
        for path, run in measured_runs(place):
            if run.reason is None and run.figures is not None and path.resolve() not in taken:
                yield path.resolve().parent, run.figures


def _store_of(path: Path) -> Path:
    """The study that a run lies in, whose journal says what counts; else the folder it lies in."""
    from trainload.study.folder import CELLS

    above = path.resolve().parent
    return above.parent if (above.parent / CELLS).is_file() else above
