"""Running a study: block after block until nothing is wanted any more, whatever happened before.

Decides what is run next and notes what came of it; how a cell is run is the executor's affair.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trainload.errors import StudyError, Terminated
from trainload.record import StudyCell
from trainload.run.settle import check_drop_caches, drop_caches, wait_until_settled
from trainload.run.workers.interrupts import signals_as_interrupts
from trainload.study.cells import Cell
from trainload.study.executors import Executor, Finished, Task, Tell
from trainload.study.file import StudyFile
from trainload.study.folder import is_asked_to_stop
from trainload.study.ledger import RUNS, Entry, Ledger, judge_run, reconcile
from trainload.study.schedule import Place, next_block
from trainload.study.state import StudyState
from trainload.study.stopping import Stopping, choose_stopping

MOST_LOSSES = 20
"""Runs lost one after the other before the study gives up."""
LOOK_S = 1.0
"""Between two looks whether the study is asked to stop, while others run its cells."""

EndedBy = Literal["finished", "stopped", "interrupted", "limit"]


@dataclass(frozen=True, kw_only=True)
class SessionResult:
    """What one session of `study run` did."""

    ended_by: EndedBy
    ran: int
    """Runs of this session."""
    state: StudyState
    mended: tuple[str, ...] = ()
    """What the session found amiss in the folder, and how it took it."""


class _Ended(Exception):
    """A reason to end between two runs."""

    def __init__(self, by: EndedBy) -> None:
        super().__init__(by)
        self.by = by


def run_cells(
    study: StudyFile,
    cells: Sequence[Cell],
    folder: Path,
    executor: Executor,
    *,
    tell: Tell = lambda _text: None,
) -> SessionResult:
    """Run what is left of a study; the caller holds its folder.

    Returns however the session ended; TrainloadError where the folder, the disk or the file does
    not allow to go on.
    """
    if study.keys.drop_caches and not executor.elsewhere:
        check_drop_caches()
    ledger = Ledger(folder)
    try:
        session = _Session(study, cells, folder, executor, ledger, tell)
        return session.run()
    finally:
        executor.close()
        ledger.close()


def wanted_cells(stopping: Stopping, cells: Sequence[Cell], state: StudyState) -> frozenset[str]:
    """Identities of the cells that want another repetition."""
    values = {
        cell.identity: known.values if known is not None else []
        for cell in cells
        if (known := state.cells.get(cell.identity)) is None or known.ending is None
    }
    return stopping.next(values) if values else frozenset()


class _Session:
    def __init__(
        self,
        study: StudyFile,
        cells: Sequence[Cell],
        folder: Path,
        executor: Executor,
        ledger: Ledger,
        tell: Tell,
    ) -> None:
        self.study, self.cells, self.folder = study, cells, folder
        self.executor, self.ledger, self.tell = executor, ledger, tell
        self.stopping = choose_stopping(study.keys)
        self.state = StudyState(study.keys, self.stopping.metric)
        self.ran = 0
        self.losses = 0
        self.start_s = time.monotonic()
        self.under_way: dict[tuple[str, int], Task] = {}

    def run(self) -> SessionResult:
        entries, mended = reconcile(self.folder, self.ledger, self.state.figures)
        mine = {cell.identity for cell in self.cells}
        self.state.take(entry for entry in entries if entry.cell in mine)
        ended_by: EndedBy = "finished"
        try:
            with signals_as_interrupts():
                while block := self._next_block():
                    self._run_block(block)
        except _Ended as end:
            ended_by = end.by
        except (KeyboardInterrupt, Terminated):
            ended_by = "interrupted"
            self.executor.cancel(running=True)
        return SessionResult(
            ended_by=ended_by, ran=self.ran, state=self.state, mended=tuple(mended)
        )

    def _next_block(self) -> list[Place]:
        if self.state.lacking is not None:
            raise self.study.source.wrong(
                ("stopping",), f"the run {self.state.lacking} has no figure {self.stopping.metric}"
            )
        wanting = wanted_cells(self.stopping, self.cells, self.state)
        return next_block(self.study, self.cells, self.state.counts(), wanting)

    def _run_block(self, block: Sequence[Place]) -> None:
        for place in block:
            self._check_end(another=True)
            self._settle()
            self._submit(place)
            while len(self.under_way) >= self.executor.capacity:
                self._check_end()
                self._collect()
        while self.under_way:
            self._check_end()
            self._collect()

    def _submit(self, place: Place) -> None:
        cell, keys = place.cell, self.study.keys
        task = Task(
            place=StudyCell(
                study=keys.name,
                cell=cell.identity,
                repetition=place.repetition,
                factors=dict(cell.factors),
            ),
            keywords=cell.keywords(place.repetition, vary_seed=keys.vary_seed),
            runs=self.folder / RUNS,
            cool_down=keys.cool_down,
            drop_caches=keys.drop_caches,
            resources=cell.values.get("resources", {}),
        )
        self.under_way[cell.identity, place.repetition] = task
        self.executor.submit(task, lambda: self.ledger.start(cell.identity, place.repetition))

    def _collect(self) -> None:
        for finished in self.executor.collect(LOOK_S):
            told = finished.task.place
            del self.under_way[told.cell, told.repetition]
            if not finished.begun:
                continue
            self.ran += 1
            entry = self._entry(finished)
            if entry is not None:
                self.state.add(entry)
            if entry is not None and entry.outcome == "interrupted":
                raise _Ended("interrupted")
            self._count_losses(entry)

    def _entry(self, finished: Finished) -> Entry | None:
        """The run judged and noted; None where it was lost without a record."""
        told = finished.task.place
        if finished.run is None:
            problem = finished.problem or "no reason was given"
            if finished.lost:
                self.ledger.lose(told.cell, told.repetition)
                self.tell(f"{finished.task.title}: lost, to be run again: {problem}\n")
                return None
            self.tell(f"{finished.task.title}: not started: {problem}\n")
            return self.ledger.refuse(told.cell, told.repetition, problem)
        entry = judge_run(finished.run)
        if entry is None:
            return None
        self.ledger.finish(entry)
        if entry.verdict not in ("counted", "lost"):
            said = "; ".join(entry.doubts) or entry.reason or entry.outcome
            title = finished.task.title
            self.tell(f"{title}: {entry.outcome}, {entry.verdict}: {said}\n")
        return entry

    def _count_losses(self, entry: Entry | None) -> None:
        lost = entry is None or entry.verdict == "lost"
        self.losses = self.losses + 1 if lost else 0
        if self.losses >= MOST_LOSSES:
            raise StudyError(f"{self.losses} runs were lost one after the other; the study stops")

    def _settle(self) -> None:
        if self.executor.elsewhere:
            return  # the machine that runs it does
        if self.study.keys.drop_caches:
            drop_caches()
        settled = wait_until_settled(
            self.study.keys.cool_down,
            stopped=lambda: is_asked_to_stop(self.folder),
            tell=lambda text: self.tell(f"{self.study.name}: {text}"),
        )
        if settled.words is not None:
            self.tell(settled.words)

    def _check_end(self, *, another: bool = False) -> None:
        """Ends the session where it has to end; `another` asks for one more run."""
        limits = self.study.keys.limits
        if is_asked_to_stop(self.folder):
            self._finish_under_way("stopped")
        over = limits.time_s is not None and time.monotonic() - self.start_s >= limits.time_s
        begun = self.ran + len(self.under_way)
        if over or (another and limits.runs is not None and begun >= limits.runs):
            self._finish_under_way("limit", withdraw=over)

    def _finish_under_way(self, by: EndedBy, *, withdraw: bool = True) -> None:
        if withdraw:
            self.executor.cancel(running=False)
        while self.under_way:
            self._collect()
        raise _Ended(by)
