"""Cells as tasks of Slurm's array jobs, which outlive whoever submitted them.

Slurm queues and places; this looks what became of each task. The study's folder must be one that
the nodes share.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainload.errors import StudyError
from trainload.study.executors.executor import ALL, Begun, Finished, Task, Tell
from trainload.study.executors.parcels import Load
from trainload.study.executors.slurm_queue import (
    MOST_TASKS,
    CellKey,
    Slot,
    Unanswered,
    await_submission,
    check_commands,
    finish_batch,
    list_batches,
    see_queue,
    submit_batch,
    take_done,
    withdraw_pending,
)
from trainload.study.ledger import RUNS

LOOK_S = 10.0
"""Between two questions to the controller; results are seen in the folder at once."""
UNSEEN_S = 10.0
"""For how long a task may be in no queue, and its result not be seen in a shared folder."""
_TIME_LIMIT = "DUE TO TIME LIMIT"


@dataclass
class _Followed:
    task: Task
    begun: Begun
    slot: Slot
    started: bool = False
    unseen_s: float | None = None
    """When it was first in no queue."""


class SlurmExecutor:
    """Submits what Slurm does not have yet, and follows what it has."""

    capacity = ALL
    elsewhere = True

    def __init__(
        self,
        folder: Path,
        options: Sequence[str],
        *,
        load: Load,
        tell: Tell,
        look_s: float = LOOK_S,
        unseen_s: float = UNSEEN_S,
    ) -> None:
        """Takes up what earlier sessions left in Slurm; StudyError where Slurm does not answer."""
        check_commands()
        self._folder, self._options = folder, tuple(options)
        self._load, self._tell = load, tell
        self._look_s, self._unseen_s = look_s, unseen_s
        self._fresh: list[tuple[Task, Begun]] = []
        self._followed: dict[CellKey, _Followed] = {}
        self._back: list[Finished] = []
        self._looked_s = float("-inf")
        for batch in list_batches(folder):
            await_submission(batch)
        try:
            # Before the runs are read: what ends from now on is told of by `collect`.
            self._known = see_queue(folder)
        except Unanswered as error:
            raise StudyError(f"--on slurm: {error}; see sinfo") from None
        for batch in list_batches(folder):
            finish_batch(batch, folder / RUNS)
            if not any(slot.batch.name == batch.name for slot, _ in self._known.values()):
                shutil.rmtree(batch, ignore_errors=True)

    def submit(self, task: Task, begun: Begun) -> None:
        """Follow the task where Slurm has it; else keep it for the next array job."""
        key = task.place.cell, task.place.repetition
        known = self._known.pop(key, None)
        if known is None:
            self._fresh.append((task, begun))
        else:
            self._followed[key] = _Followed(task, begun, known[0])

    def collect(self, wait_s: float) -> Sequence[Finished]:
        """Submit what is new, and give back what has ended."""
        deadline_s = time.monotonic() + wait_s
        if self._fresh:
            self._submit_fresh()
            self._looked_s = time.monotonic() - self._look_s + 2.0
        while True:
            found, self._back = self._back, []
            found += self._ended()
            if found or time.monotonic() >= deadline_s:
                return found
            time.sleep(min(0.5, max(0.0, deadline_s - time.monotonic())))

    def cancel(self, *, running: bool) -> None:
        """Take back what waits; an interrupted session leaves Slurm's queue as it is."""
        self._back += [_untouched(task) for task, _ in self._fresh]
        self._fresh.clear()
        if running:
            if self._followed:
                self._tell(
                    f"{len(self._followed)} runs stay in Slurm; the same command takes them up, "
                    "scancel ends them\n"
                )
            return
        try:
            withdraw_pending(self._folder)
            left = see_queue(self._folder)
        except Unanswered as error:
            self._tell(f"Slurm does not answer: {error}\n")
            return
        for key, one in list(self._followed.items()):
            if key not in left and not one.started and not one.slot.done.exists():
                self._back.append(_untouched(one.task))
                del self._followed[key]

    def close(self) -> None:
        """Nothing is held: what Slurm has, it keeps."""

    def _submit_fresh(self) -> None:
        """One array job for all that need the same."""
        groups: dict[tuple[object, ...], list[tuple[Task, Begun]]] = {}
        for task, begun in self._fresh:
            needs = (task.accelerators, *sorted(task.resources.items()))
            groups.setdefault(needs, []).append((task, begun))
        self._fresh = []
        for group in groups.values():
            for first in range(0, len(group), MOST_TASKS):
                part = group[first : first + MOST_TASKS]
                slots = submit_batch(self._folder, [task for task, _ in part], self._options)
                for task, begun in part:
                    key = task.place.cell, task.place.repetition
                    self._followed[key] = _Followed(task, begun, slots[key])

    def _ended(self) -> list[Finished]:
        """Those whose files say so, and those that Slurm no longer has."""
        found = []
        for key, one in list(self._followed.items()):
            ended = self._result(one)
            if ended is not None:
                found.append(ended)
                del self._followed[key]
        now_s = time.monotonic()
        if not found and self._followed and now_s - self._looked_s >= self._look_s:
            self._looked_s = now_s
            found = self._gone(now_s)
        return found

    def _result(self, one: _Followed) -> Finished | None:
        """What a task has left; None while it waits or runs."""
        place = take_done(one.slot, one.task.runs)
        refused = place is None and one.slot.problem.exists()
        if place is None and not refused:
            return None
        _begin(one)
        if place is not None:
            return Finished(task=one.task, run=self._load(place))
        problem = one.slot.problem.read_text(encoding="utf-8")
        return Finished(task=one.task, run=None, problem=problem)

    def _gone(self, now_s: float) -> list[Finished]:
        """Tasks that left Slurm without a result."""
        try:
            queue = see_queue(self._folder)
        except Unanswered as error:
            self._tell(f"Slurm does not answer: {error}")
            return []
        running = sum(state == "RUNNING" for _, state in queue.values())
        self._tell(f"in Slurm: {running} running, {len(queue) - running} waiting")
        found = []
        for key, one in list(self._followed.items()):
            if key in queue:
                one.unseen_s = None
                if queue[key][1] == "RUNNING":
                    _begin(one)
                continue
            one.unseen_s = now_s if one.unseen_s is None else one.unseen_s
            if now_s - one.unseen_s >= self._unseen_s and self._result(one) is None:
                found.append(_lost(one))
                del self._followed[key]
        return found


def _begin(one: _Followed) -> None:
    if not one.started:
        one.started = True
        one.begun()


def _lost(one: _Followed) -> Finished:
    said = _last_line(one.slot.log)
    # The same limit would end it again: that is a failure, and counts as one.
    lost = _TIME_LIMIT not in said
    return Finished(task=one.task, run=None, lost=lost, problem=said or "it left Slurm's queue")


def _untouched(task: Task) -> Finished:
    return Finished(task=task, run=None, lost=True, begun=False)


def _last_line(log: Path) -> str:
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    lines = [line for line in text.splitlines() if line.strip()]
    limits = [line for line in lines if _TIME_LIMIT in line]
    return next(iter(limits or lines[-1:]), "")
