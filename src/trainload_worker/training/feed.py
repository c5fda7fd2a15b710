"""Brings the rows of each step and measures how long the step waited for them; knows no framework.

Rows come from the cache in memory, or from a framework's own loader, which is told an epoch's rows
ahead. Either way they are the same rows in the same order.
"""

from __future__ import annotations

import time
from array import array
from typing import Any, Callable, Mapping, Protocol

from trainload_worker.protocol.data import ImageData
from trainload_worker.protocol.spec import TrainSpec

_FILES: Mapping[str, str] = {
    "torch": "image files are decoded and resized by Pillow, as the cache's are",
    "tensorflow": "image files are decoded and resized by TensorFlow: pixels differ a little "
    "from the cache's",
    "mxnet": "image files are decoded and resized by MXNet: pixels differ a little "
    "from the cache's",
}
_NAMES: Mapping[str, str] = {
    "torch": "torch's DataLoader in {} processes",
    "tensorflow": "tf.data with {} parallel calls",
    "mxnet": "Gluon's DataLoader in {} threads",
}


class Loader(Protocol):
    """A framework's own pipeline over the training rows."""

    def begin_epoch(self, rows: array[int]) -> None:
        """Learns the rows of an epoch, in the order in which batches will be taken of them."""

    def take(self) -> tuple[Any, Any]:
        """The next batch: examples and targets, as the framework keeps them."""


class Feed:
    """Where a step's rows come from."""

    def __init__(
        self, take: Callable[[array[int]], tuple[Any, Any]], loader: Loader | None = None
    ) -> None:
        self._take = take
        self._loader = loader
        self.wait_s = 0.0
        """Seconds in which steps have waited so far."""

    def begin_epoch(self, rows: array[int]) -> None:
        """Tells a loader what comes; the cache needs no warning."""
        if self._loader is not None:
            self._loader.begin_epoch(rows)

    def take(self, rows: array[int]) -> tuple[Any, Any]:
        """Those rows, which come next in the epoch's order."""
        start_s = time.monotonic()
        batch = self._take(rows) if self._loader is None else self._loader.take()
        self.wait_s += time.monotonic() - start_s
        return batch


def loader_notes(spec: TrainSpec) -> list[str]:
    """What the record should say of a loader that is not our own."""
    training = spec.training
    if training.loader != "native" or spec.framework not in _NAMES:
        return []
    notes = [
        f"training rows come from {_NAMES[spec.framework].format(training.loader_workers)}; "
        "validation rows from the cache"
    ]
    if reads_files(spec):
        notes.append(_FILES[spec.framework])
    return notes


def reads_files(spec: TrainSpec) -> bool:
    """Whether a native loader opens image files; other data stands in arrays already."""
    return isinstance(spec.data, ImageData) and spec.data.kind in ("folder", "subset")


def cut_batches(rows: array[int], batch_size: int) -> list[list[int]]:
    """An epoch's rows in portions."""
    return [rows[first : first + batch_size].tolist() for first in range(0, len(rows), batch_size)]
