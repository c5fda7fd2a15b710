"""Steps, losses, rows and epochs of Keras' `fit`, from its own hooks; imports no framework.

Keras tells the mean loss over the epoch so far; a step's own is worked out from two of these, and
rows from the counter behind that mean, read twice an epoch. Hooks may come from several threads,
and then after the device has done the step: Keras itself waits for what it tells.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import Any, Callable, List, Mapping, Optional, Tuple

from trainload_worker.frameworks.backends import StepBatch
from trainload_worker.process.events import EventWriter
from trainload_worker.protocol.events import EpochDone, ProbeFailed, ProbeNote
from trainload_worker.training.loop import FLUSH_PERIOD_S, StepLog

_HELD = 4
"""Steps held back between flushes: another thread may bring an earlier one, and the last of an
epoch may have fewer rows."""
_ACCURACIES = (
    "accuracy",
    "acc",
    "binary_accuracy",
    "categorical_accuracy",
    "sparse_categorical_accuracy",
)
_OWN_STEP = (
    "the model has a train_step of its own: the loss of a step is as that reports it, "
    "and rows are not known"
)
_SEVERAL = "several batches are trained in one call (steps_per_execution): a step is one such call"

Ended = Tuple[int, float, Optional[float]]
"""Number of the batch in its epoch, when it ended, the mean loss it was told with."""


class KerasFits:
    """Every `fit` of a program, one after the other; never stops one."""

    def __init__(self, events: EventWriter) -> None:
        self._events = events
        self._lock = threading.RLock()
        self._failed = False
        self._notes: set[str] = set()
        self._model: Any = None
        self._averaged = True
        self._log: StepLog | None = None
        self._next_step = 0
        self._next_epoch = 0
        self._flush_s = 0.0
        self._fresh_epoch(0)
        self.begin_fit = self._guard(self._begin_fit)
        self.begin_epoch = self._guard(self._begin_epoch)
        self.begin_batch = self._guard(self._begin_batch)
        self.end_batch = self._guard(self._end_batch)
        self.begin_validation = self._guard(self._begin_validation)
        self.end_validation = self._guard(self._end_validation)
        self.end_epoch = self._guard(self._end_epoch)
        self.finish = self._guard(self._finish)

    def _fresh_epoch(self, number: int) -> None:
        self._number = number
        self._ended: List[Ended] = []
        self._begun = self._seen = 0
        self._batch_rows: int | None = None
        self._all_rows: int | None = None
        self._before: Tuple[int, float] = (0, 0.0)
        """Batches of the epoch that were told, and the mean loss over them."""
        self._validation: Tuple[float | None, float | None] = (None, None)

    def _begin_fit(self, model: Any) -> None:
        self._model = model
        own = getattr(type(model), "train_step", None)
        self._averaged = str(getattr(own, "__module__", "")).startswith("keras.")
        if not self._averaged:
            self._note(_OWN_STEP)
        if (getattr(model, "steps_per_execution", 1) or 1) > 1:
            self._note(_SEVERAL)

    def _begin_epoch(self, epoch: int) -> None:
        """Each `fit` counts from 0 again; here they go on."""
        self._finish()
        self._fresh_epoch(max(epoch, self._next_epoch))
        self._next_epoch = self._number + 1
        self._log = StepLog(self, self._events, self._number, self._next_step)
        self._log.begin(monotonic())
        self._flush_s = monotonic() + FLUSH_PERIOD_S

    def _begin_batch(self) -> None:
        self._begun += 1
        if self._begun == 2:
            self._batch_rows = self._read_rows()

    def _end_batch(self, batch: int, logs: Mapping[str, Any]) -> None:
        now_s = monotonic()
        self._ended.append((batch, now_s, _number(logs.get("loss"))))
        if now_s >= self._flush_s and self._log is not None:
            self._log.flush(drain=False)
            self._flush_s = now_s + FLUSH_PERIOD_S

    def _begin_validation(self) -> None:
        # Its own rows go through the same counter, from 0 on.
        self._all_rows = self._read_rows()
        self._validation = (monotonic(), None)

    def _end_validation(self) -> None:
        self._validation = (self._validation[0], monotonic())

    def _end_epoch(self, logs: Mapping[str, Any]) -> None:
        log = self._log
        if log is None:
            return
        begin_s, end_s = self._validation
        if begin_s is None:
            self._all_rows = self._read_rows()
        self._finish()
        self._events.write(
            EpochDone(
                epoch=self._number,
                start_s=log.epoch_start_s,
                end_s=log.end_s,
                steps=self._seen,
                train_loss=_number(logs.get("loss")),
                validation_start_s=begin_s,
                validation_end_s=end_s,
                validation={} if end_s is None else _scores(logs),
            )
        )

    def _finish(self) -> None:
        """Writes what an epoch still holds, also of one that was broken off."""
        log, self._log = self._log, None
        if log is not None:
            log.flush(drain=True)
            self._next_step = log.next_step

    def collect(self, drain: bool) -> StepBatch:
        """Steps of the epoch in order, for the step log."""
        self._ended.sort()
        count = len(self._ended) if drain else max(0, len(self._ended) - _HELD)
        taken, self._ended = self._ended[:count], self._ended[count:]
        batch = StepBatch([], [])
        last_s = 0.0
        for number, end_s, mean in taken:
            last_s = max(last_s, end_s)
            self._seen += 1
            done = number + 1
            rows = self._rows_after(done, last=drain and number == taken[-1][0])
            batch.end_s.append(last_s)
            batch.loss.append(self._own_loss(done, rows, mean))
            batch.examples.append(None if rows is None else rows - self._before_rows())
            self._before = (done, mean if mean is not None else self._before[1])
        return batch

    def _rows_after(self, batches: int, *, last: bool) -> int | None:
        """Rows of the epoch up to there; only the last batch may be a smaller one."""
        if last and self._all_rows is not None:
            return self._all_rows
        return None if self._batch_rows is None else batches * self._batch_rows

    def _before_rows(self) -> int:
        return self._before[0] * (self._batch_rows or 0)

    def _own_loss(self, batches: int, rows: int | None, mean: float | None) -> float | None:
        """The step's own loss from the means before and after it."""
        before, before_mean = self._before
        if mean is None or not self._averaged or before == 0:
            return mean
        weight = rows if rows is not None and self._batch_rows else batches
        weight_before = self._before_rows() if weight is rows else before
        if weight <= weight_before:
            return None
        return (mean * weight - before_mean * weight_before) / (weight - weight_before)

    def _read_rows(self) -> int | None:
        """Rows that the epoch's mean loss is of; None where nothing tells. Waits for the device."""
        if not self._averaged:
            return None
        for metric in getattr(self._model, "metrics", ()):
            if getattr(metric, "name", None) == "loss" and hasattr(metric, "count"):
                return round(float(metric.count.numpy())) or None
        return None

    def _note(self, words: str) -> None:
        if words not in self._notes:
            self._notes.add(words)
            self._events.write(ProbeNote(words, t_s=monotonic()))

    def _guard(self, work: Callable[..., None]) -> Callable[..., None]:
        """The same work one at a time; an error ends the probe and not the training."""

        def guarded(*args: Any) -> None:
            if self._failed:
                return
            try:
                with self._lock:
                    work(*args)
            except Exception as error:  # noqa: BLE001 - the user's training comes first
                self._failed = True
                reason = f"{type(error).__name__}: {error}"
                self._events.write(ProbeFailed(reason, t_s=monotonic()))

        return guarded


def _scores(logs: Mapping[str, Any]) -> dict[str, float | None]:
    """The validation's loss and accuracy, under the names of the record."""
    found = {"loss": _number(logs.get("val_loss"))}
    named = (_number(logs.get(f"val_{name}")) for name in _ACCURACIES)
    accuracy = next((value for value in named if value is not None), None)
    return {**found, "accuracy": accuracy}


def _number(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None
