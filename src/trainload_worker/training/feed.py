"""Brings the rows of each step and measures how long the step waited for them; knows no framework.

Rows come from the cache in memory, or from a framework's own loader, which is told an epoch's rows
ahead. Either way they are the same rows in the same order.
"""

from __future__ import annotations

import time
from array import array
from typing import Any, Callable, Protocol

from trainload_worker.protocol.data import ImageData
from trainload_worker.protocol.offers import find_offer
from trainload_worker.protocol.spec import TrainSpec


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
        """Hands the epoch's rows to the loader; does nothing for the cache."""
        if self._loader is not None:
            self._loader.begin_epoch(rows)

    def take(self, rows: array[int]) -> tuple[Any, Any]:
        """Those rows, which come next in the epoch's order."""
        start_s = time.monotonic()
        batch = self._take(rows) if self._loader is None else self._loader.take()
        self.wait_s += time.monotonic() - start_s
        return batch


def loader_notes(spec: TrainSpec) -> list[str]:
    """Notes for the record on the framework's own loader; empty where the cache brings the rows."""
    training, native = spec.training, find_offer(spec.framework).native_loader
    if training.loader != "native" or native is None:
        return []
    described = native.described.format(training.loader_workers)
    notes = [f"training rows come from {described}; validation rows from the cache"]
    return [*notes, native.image_files] if reads_files(spec) else notes


def reads_files(spec: TrainSpec) -> bool:
    """Whether a native loader opens image files; other data stands in arrays already."""
    return isinstance(spec.data, ImageData) and spec.data.kind in ("folder", "subset")


def cut_batches(rows: array[int], batch_size: int) -> list[list[int]]:
    """An epoch's rows in batches; the last may be smaller."""
    return [rows[first : first + batch_size].tolist() for first in range(0, len(rows), batch_size)]
