"""Clocks for steps of frameworks that have none of their own; know no framework.

`ReturnClock` is for calls that return when the step has ended. `WaitingClock` is for calls that
return earlier: a thread waits for each step in turn and reads the time when it has ended, so that
the training thread never waits for its own step.
"""

from __future__ import annotations

import queue
import threading
from time import monotonic
from typing import Any, Callable, Protocol

from trainload_worker.frameworks.backends import StepBatch

STEPS_AHEAD = 8
"""Steps that may be under way: enough to hide the host's work, few enough to bound the memory."""


class StepClock(Protocol):
    """Learns when steps ended and what their loss was."""

    def mark(self, ending: Any) -> None:
        """Notes that a step has been given to the device."""

    def collect(self, drain: bool) -> StepBatch:
        """Steps that ended since the last call."""


class ReturnClock:
    """The step has ended when `mark` is called; `read` gives its loss, None where unknown.

    A loss that is a number already is not read.
    """

    def __init__(self, read: Callable[[Any], float | None]) -> None:
        self._read = read
        self._batch = StepBatch([], [])

    def mark(self, ending: Any) -> None:
        """Reads the clock, then the loss."""
        batch = self._batch
        batch.end_s.append(monotonic())
        batch.loss.append(ending if type(ending) is float else self._read(ending))

    def mark_rested(self, begin_s: float, ends_s: list[float]) -> None:  # noqa: ARG002
        """Takes steps that ended at these moments, and of which nothing more is known."""
        self._batch.end_s.extend(ends_s)
        self._batch.loss.extend([None] * len(ends_s))

    def collect(self, drain: bool) -> StepBatch:  # noqa: ARG002 - nothing is ever under way
        """All steps since the last call."""
        batch, self._batch = self._batch, StepBatch([], [])
        return batch


class WaitingClock:
    """A thread calls `wait` with what `mark` was given, in order, then `read` for the loss."""

    def __init__(self, wait: Callable[[Any], Any], read: Callable[[Any], float | None]) -> None:
        self._wait, self._read = wait, read
        self._pending: queue.Queue[Any] = queue.Queue()
        self._room = threading.Semaphore(STEPS_AHEAD)
        self._lock = threading.Lock()
        self._batch = StepBatch([], [])
        self._error: BaseException | None = None
        # A device that hangs must not keep the process from ending.
        threading.Thread(target=self._follow, name="step-clock", daemon=True).start()

    def mark(self, ending: Any) -> None:
        """Hands a step over; waits only where too many are under way. Raises a step's error."""
        self._room.acquire()
        self._raise()
        self._pending.put(ending)

    def collect(self, drain: bool) -> StepBatch:
        """Steps that ended since the last call; raises the error of a step that failed."""
        if drain:
            self._pending.join()
        with self._lock:
            batch, self._batch = self._batch, StepBatch([], [])
        if not batch.end_s:
            self._raise()
        return batch

    def _follow(self) -> None:
        while True:
            ending = self._pending.get()
            try:
                if self._error is None:
                    self._wait(ending)
                    end_s = monotonic()
                    loss = self._read(ending)
                    with self._lock:
                        self._batch.end_s.append(end_s)
                        self._batch.loss.append(loss)
            except BaseException as error:  # noqa: BLE001 - raised again in the training thread
                self._error = error
            finally:
                del ending
                self._room.release()
                self._pending.task_done()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error
