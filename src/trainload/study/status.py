"""How far a study is: planned, done, failed, running, time left, and where each cell stands.

Reads the folder alone, closes nothing and starts nothing: safe beside a study that runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trainload.study.folder import KnownCell, is_asked_to_stop, is_held, load_folder
from trainload.study.ledger import RUNS, Entry, read_ledger
from trainload.study.state import CellState, StudyState
from trainload.study.stopping import choose_stopping, least_repetitions

CellStanding = Literal[
    "waiting", "running", "repeating", "done", "out_of_memory", "timed_out", "failed", "untrusted"
]


@dataclass(frozen=True, kw_only=True, slots=True)
class CellStatus:
    """One cell, as a row of the table."""

    cell: str
    title: str
    standing: CellStanding
    repetitions: int
    """Settled ones."""
    value: float | None
    """Median of the figure that stopping looks at, else of the run's length in seconds."""
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class StudyStatus:
    """A study at one moment; counts are of runs that are or will be counted."""

    name: str
    path: str
    metric: str
    planned: int
    done: int
    failed: int
    running: int
    queued: int
    """Waiting in Slurm."""
    left: int
    left_s: float | None
    """None where no run has ended yet and none was estimated."""
    runs: int
    """Run directories that have ended, those that do not count included."""
    disturbed: int
    """Counted runs beside more other load than `other_load` admits."""
    run_s: float
    energy_j: float | None
    stopping: bool
    """Whether somebody asked it to stop."""
    cells: tuple[CellStatus, ...]

    def to_json(self) -> dict[str, Any]:
        """The document of `study status --json`."""
        from trainload_worker.protocol.checked import to_json

        document: dict[str, Any] = to_json(self)
        return document


def read_status(folder: Path) -> StudyStatus:
    """The status of a study's folder; StudyError where it is none."""
    study, cells = load_folder(folder)
    stopping = choose_stopping(study.keys)
    state = StudyState(study.keys, stopping.metric)
    mine = {cell.identity for cell in cells}
    ended, refused, started = read_ledger(folder, state.figures)
    state.take(entry for entry in _present(folder, ended, refused) if entry.cell in mine)
    under_way = {(one.cell, one.repetition) for one in started} if is_held(folder) else set()
    queued: set[tuple[str, int]] = set()
    for key, state_there in _in_slurm(folder).items():
        (under_way if state_there == "RUNNING" else queued).add(key)
    running = frozenset(cell for cell, _ in under_way)
    live = {
        cell.identity: known.values if known is not None else []
        for cell in cells
        if (known := state.cells.get(cell.identity)) is None or known.ending is None
    }
    wanting = stopping.next(live) if live else frozenset()
    reasons = stopping.reasons(live) if live else {}
    least = least_repetitions(study.keys)
    planned = {
        cell.identity: _planned(state.cells.get(cell.identity), least, cell.identity in wanting)
        for cell in cells
    }
    settled = {cell.identity: _settled(state.cells.get(cell.identity)) for cell in cells}
    failed = sum(_ending(state, cell) in ("failed", "untrusted") for cell in cells)
    left = {one: planned[one] - settled[one] - _ended(state.cells.get(one)) for one in planned}
    rows = [_row(cell, state.cells.get(cell.identity), running, wanting, reasons) for cell in cells]
    results = sum(_ending(state, cell) in ("out_of_memory", "timed_out") for cell in cells)
    return StudyStatus(
        name=study.name,
        path=str(folder),
        metric=stopping.metric or "duration_s",
        planned=sum(planned.values()),
        done=sum(settled.values()) + results,
        failed=failed,
        running=len(under_way),
        queued=len(queued),
        left=sum(left.values()),
        left_s=_left_s(cells, state, left),
        runs=state.runs,
        disturbed=state.disturbed,
        run_s=state.run_s,
        energy_j=state.energy_j,
        stopping=is_asked_to_stop(folder),
        cells=tuple(rows),
    )


def _present(folder: Path, ended: Mapping[str, Entry], refused: Sequence[Entry]) -> Iterator[Entry]:
    """Runs whose directories are still there."""
    import os

    try:
        names = set(os.listdir(folder / RUNS))  # noqa: PTH208 - thousands of names, no objects
    except (FileNotFoundError, NotADirectoryError):
        names = set()
    yield from refused
    yield from (entry for name, entry in ended.items() if name in names)


def _in_slurm(folder: Path) -> dict[tuple[str, int], str]:
    """Cells and repetitions that Slurm has, with their states; none where it cannot be asked."""
    if not (folder / "slurm").is_dir():
        return {}
    from trainload.study.executors.slurm_queue import Unanswered, see_queue

    try:
        return {key: state for key, (_, state) in see_queue(folder).items()}
    except Unanswered:
        return {}  # a machine that is none of Slurm's: the runs themselves tell what is done


def _settled(known: CellState | None) -> int:
    return 0 if known is None else known.settled


def _ended(known: CellState | None) -> int:
    return 0 if known is None or known.ending is None else 1


def _ending(state: StudyState, cell: KnownCell) -> str | None:
    known = state.cells.get(cell.identity)
    return None if known is None else known.ending


def _planned(known: CellState | None, least: int, wanting: bool) -> int:
    """Runs of a cell that will count in the end, as far as that is known now."""
    settled = _settled(known)
    if known is not None and known.ending is not None:
        return settled + 1
    return max(settled + (1 if wanting else 0), least if wanting else settled)


def _left_s(cells: Sequence[KnownCell], state: StudyState, left: Mapping[str, int]) -> float | None:
    """Left runs by their cell's own length, else by its estimate, scaled by what was measured."""
    if not any(left.values()):
        return 0.0
    measured = state.mean_run_s
    known = {
        cell.identity: None
        if (found := state.cells.get(cell.identity)) is None
        else found.mean_run_s
        for cell in cells
    }
    pairs = [
        (seconds, cell.seconds)
        for cell in cells
        if (seconds := known[cell.identity]) is not None and cell.seconds
    ]
    scale = sum(one for one, _ in pairs) / sum(two for _, two in pairs) if pairs else 1.0
    total = 0.0
    for cell in cells:
        guess = None if cell.seconds is None else cell.seconds * scale
        each = known[cell.identity] or guess or measured
        if left[cell.identity] and each is None:
            return None
        total += left[cell.identity] * (each or 0.0)
    return total


def _row(
    cell: KnownCell,
    known: CellState | None,
    running: frozenset[str],
    wanting: frozenset[str],
    reasons: Mapping[str, str],
) -> CellStatus:
    import statistics

    standing: CellStanding = "done"
    if known is not None and known.ending is not None:
        standing = known.ending
    elif cell.identity in running:
        standing = "running"
    elif cell.identity in wanting:
        standing = "repeating" if known is not None and known.settled else "waiting"
    values = [] if known is None else known.values
    ended = None if known is None else known.reason
    return CellStatus(
        cell=cell.identity,
        title=cell.title,
        standing=standing,
        repetitions=_settled(known),
        value=statistics.median(values) if values else None,
        reason=ended or reasons.get(cell.identity),
    )
