"""The training loop, the same for every framework; reads no device and draws nothing itself.

A step's own bookkeeping is one look at the clock. What the backend has finished is written down
at least every FLUSH_PERIOD_S, between two steps.
"""

from __future__ import annotations

import traceback
from array import array
from dataclasses import dataclass
from time import monotonic
from typing import Any

from trainload_worker.frameworks.backends import Backend, StepSource
from trainload_worker.process.events import EventWriter
from trainload_worker.process.signals import StopRequest
from trainload_worker.protocol.events import EpochDone, StepsDone
from trainload_worker.protocol.spec import TrainSpec
from trainload_worker.training.checkpoint import Checkpoints
from trainload_worker.training.feed import Feed
from trainload_worker.training.metrics import score
from trainload_worker.training.prepare import Prepared
from trainload_worker.training.state import ModelState, Position

FLUSH_PERIOD_S = 0.5


@dataclass(frozen=True)
class Course:
    """What a training is fed from and kept by."""

    state: ModelState
    feed: Feed
    checkpoints: Checkpoints


def train(
    spec: TrainSpec,
    backend: Backend,
    prepared: Prepared,
    events: EventWriter,
    stop: StopRequest,
    course: Course,
) -> None:
    """Trains all epochs, or until `max_steps`, and writes what happened; ends by Interrupted too.

    Validation follows each epoch, or the last one alone, or none, as the specification says; an
    epoch that `max_steps` cuts short counts as the last.
    """
    batch_size, when = spec.training.batch_size, spec.training.validate
    position, first_step = prepared.start, 0
    for epoch in range(position.epochs, spec.training.epochs):
        steps = min(prepared.steps_from(position.rows), prepared.total_steps - first_step)
        if steps <= 0:
            break
        rows = prepared.rows_of(epoch, position.rows)[: steps * batch_size]
        course.state.begin_epoch(epoch)
        course.feed.begin_epoch(rows)
        waited_s = course.feed.wait_s
        log = StepLog(backend, events, epoch, first_step)
        with stop.shielded():
            run_steps(backend, rows, batch_size, log, stop)
        stop.check()
        first_step += steps
        visited = position.rows + len(rows)
        whole = visited >= prepared.rows_per_epoch
        last = first_step >= prepared.total_steps
        position = Position(
            epochs=epoch + whole,
            rows=0 if whole else visited,
            steps=position.steps + steps,
        )
        scored = _validate(backend, spec) if when == "epoch" or (when == "end" and last) else {}
        events.write(
            EpochDone(
                epoch=epoch,
                start_s=log.epoch_start_s,
                end_s=log.end_s,
                steps=steps,
                train_loss=log.mean_loss(batch_size, len(rows)),
                input_wait_s=course.feed.wait_s - waited_s,
                **scored,
            )
        )
        if last:
            break
        course.checkpoints.after_epoch(position)
    course.checkpoints.at_end(position)


def validate(spec: TrainSpec, backend: Backend, events: EventWriter, position: Position) -> None:
    """Scores a checkpoint and trains nothing; told as the epoch that it was saved after."""
    now_s = monotonic()
    epoch = max(0, position.epochs - (position.rows == 0))
    scored = _validate(backend, spec)
    events.write(EpochDone(epoch=epoch, start_s=now_s, end_s=now_s, steps=0, **scored))


def _validate(backend: Backend, spec: TrainSpec) -> dict[str, Any]:
    """The scores of a pass over the validation rows, and when it was."""
    start_s = monotonic()
    scores = score(backend.evaluate(), spec.training.top)
    return {
        "validation_start_s": start_s,
        "validation_end_s": monotonic(),
        "validation": scores,
    }


def run_steps(
    backend: Backend, rows: array[int], batch_size: int, log: StepLog, stop: StopRequest
) -> None:
    """Runs one epoch's steps; stops after the current one when asked to."""
    run_step = backend.run_step
    log.begin(monotonic())
    flush_s = log.epoch_start_s + FLUSH_PERIOD_S
    try:
        for first in range(0, len(rows), batch_size):
            run_step(rows[first : first + batch_size])
            now_s = monotonic()
            if now_s >= flush_s:
                log.flush(drain=False)
                flush_s = now_s + FLUSH_PERIOD_S
            if stop.reason is not None:
                break
    except BaseException as error:
        stop.calm()
        # Frames may hold what filled the memory, and writing needs some.
        traceback.clear_frames(error.__traceback__)
        try:
            log.flush(drain=True)
        except Exception:  # noqa: BLE001, S110 - a broken device repeats its first error here
            pass
        raise
    stop.calm()
    log.flush(drain=True)


class StepLog:
    """Writes the `steps` lines of one epoch and keeps what its `epoch` line needs."""

    def __init__(
        self, source: StepSource, events: EventWriter, epoch: int, first_step: int
    ) -> None:
        self._source = source
        self._events = events
        self._epoch = epoch
        self.next_step = first_step
        self._losses: list[float | None] = []
        self.epoch_start_s = 0.0
        self.end_s = 0.0

    def begin(self, start_s: float) -> None:
        """Marks the start of the epoch's first step."""
        self.epoch_start_s = self.end_s = start_s

    def flush(self, drain: bool) -> None:
        """Writes the steps that the backend has finished since the last flush."""
        batch = self._source.collect(drain)
        if not batch.end_s:
            return
        self._events.write(
            StepsDone(
                epoch=self._epoch,
                first_step=self.next_step,
                start_s=self.end_s,
                end_s=tuple(batch.end_s),
                loss=tuple(batch.loss),
                examples=tuple(batch.examples),
                tokens=tuple(batch.tokens),
            )
        )
        self.next_step += len(batch.end_s)
        self.end_s = batch.end_s[-1]
        self._losses.extend(batch.loss)

    def mean_loss(self, batch_size: int, row_count: int) -> float:
        """Mean loss of a row over the epoch; the last batch may be smaller than the others."""
        losses = [loss for loss in self._losses if loss is not None]
        last_rows = row_count - batch_size * (len(losses) - 1)
        return (batch_size * sum(losses[:-1]) + last_rows * losses[-1]) / row_count
