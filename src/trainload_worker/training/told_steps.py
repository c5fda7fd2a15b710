"""Steps that a program tells by a call of its own, such as one after each step; no framework.

A call may come before the device has done the step: a thread waits for the loss it was given.
"""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import Any

from trainload_worker.frameworks.backends import StepBatch
from trainload_worker.process.events import EventWriter
from trainload_worker.protocol.events import ProbeFailed
from trainload_worker.training.loop import FLUSH_PERIOD_S, StepLog
from trainload_worker.training.step_clocks import WaitingClock


class ToldSteps:
    """Writes a `steps` line for what it was told, every half second; never stops the program."""

    def __init__(self, events: EventWriter) -> None:
        self._events = events
        self._clock: WaitingClock | None = None
        self._examples: deque[int | None] = deque()
        self._log = StepLog(self, events, epoch=0, first_step=0)
        self._flush_s = 0.0
        self._failed = False

    def begin(self) -> None:
        """The first step begins here."""
        self._log.begin(monotonic())
        self._flush_s = monotonic() + FLUSH_PERIOD_S

    def mark(self, loss: Any = None, examples: int | None = None) -> None:
        """A step has been given to the device; `examples` is how many rows it trains on."""
        if self._failed:
            return
        try:
            if self._clock is None:
                self._clock = WaitingClock(wait=_wait_for, read=_number)
            self._examples.append(examples)
            self._clock.mark(loss)
            if monotonic() >= self._flush_s:
                self._log.flush(drain=False)
                self._flush_s = monotonic() + FLUSH_PERIOD_S
        except Exception as error:  # noqa: BLE001 - the user's training comes first
            self._fail(error)

    def finish(self) -> None:
        """Waits for the steps under way and writes them."""
        if self._failed:
            return
        try:
            self._log.flush(drain=True)
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)

    def collect(self, drain: bool) -> StepBatch:
        """Steps finished since the last call, for the step log."""
        if self._clock is None:
            return StepBatch([], [])
        batch = self._clock.collect(drain)
        examples = [self._examples.popleft() for _ in batch.end_s]
        return StepBatch(batch.end_s, batch.loss, examples=examples)

    def _fail(self, error: Exception) -> None:
        self._failed = True
        self._events.write(ProbeFailed(f"{type(error).__name__}: {error}", t_s=monotonic()))


def _wait_for(loss: Any) -> None:
    """Returns when the loss is there; at once for what is no array of a device."""
    wait = getattr(loss, "block_until_ready", None) or getattr(loss, "numpy", None)
    try:
        if wait is not None:
            wait()
    except Exception:  # noqa: BLE001, S110 - the program meets the error of its step by itself
        pass


def _number(loss: Any) -> float | None:
    """The loss where it is one number; None where it is none or was given away since."""
    try:
        return None if loss is None else float(loss)
    except Exception:  # noqa: BLE001 - arrays of several values, donated ones, objects
        return None
