"""Data sets and scores in NumPy, for frameworks that bring it; knows no framework and no graph."""

from __future__ import annotations

from array import array
from typing import Any, Callable, Sequence

import numpy

from trainload_worker.data.dataset import PIXEL_SCALE, PIXEL_SHIFT, Dataset
from trainload_worker.data.split import Split
from trainload_worker.frameworks.backends import CONFUSION_CLASSES, Evaluation
from trainload_worker.protocol.spec import TrainSpec
from trainload_worker.training.metrics import TOP

_CHUNK_ROWS = 4096
"""Of plain features, which are small; other rows are evaluated in the batches of training."""


class Rows:
    """The examples of a run, shaped as the graph's input takes them; copies nothing but batches."""

    def __init__(self, spec: TrainSpec, dataset: Dataset, split: Split) -> None:
        entry = next(layer for layer in spec.graph.layers if layer.kind == "input")
        self.input_shape = tuple(entry.output_shape)
        self.input_dtype = numpy.dtype(dataset.form)
        self.target_shape = self.input_shape if dataset.is_stream else ()
        values = numpy.frombuffer(dataset.features, dtype=self.input_dtype)
        if dataset.is_stream:
            # Row after row, each token's target is the token after it.
            self._features = values[:-1].reshape(-1, *self.input_shape)
            self._labels = values[1:].reshape(-1, *self.input_shape)
        else:
            self._features = values.reshape(-1, *self.input_shape)
            self._labels = numpy.frombuffer(dataset.labels, dtype=numpy.int64)
        self._validation = numpy.frombuffer(split.validation_rows, dtype=numpy.int64)
        self._class_count = dataset.class_count
        self._top = spec.training.top
        self.batch_sizes = _batch_sizes(spec, len(split.train_rows))
        plain = len(self.input_shape) == 1 and dataset.form == "float32"
        wanted = max(spec.training.batch_size, _CHUNK_ROWS if plain else 0)
        self.chunk_rows = max(1, min(wanted, len(self._validation)))

    @property
    def tables(self) -> tuple[Any, Any]:
        """All examples and all targets, as they are kept."""
        return self._features, self._labels

    def take(self, rows: array[int]) -> tuple[Any, Any]:
        """Those examples as they are kept and their targets (int32), in new arrays.

        Pixels are bytes still: `normalise` belongs into the step.
        """
        return self._take(numpy.frombuffer(rows, dtype=numpy.int64))

    def _take(self, index: Any) -> tuple[Any, Any]:
        targets = self._labels.take(index, axis=0).astype(numpy.int32)
        return self._features.take(index, axis=0), targets

    def evaluate(self, forward: Callable[[Any], Any]) -> Evaluation:
        """Scores `forward`, from a chunk of examples to its logits, on the validation rows.

        Every chunk has `chunk_rows` rows, so that no framework compiles for the last one again.
        """
        tally = _Tally(self._class_count, self._top)
        chunk = self.chunk_rows
        for first in range(0, len(self._validation), chunk):
            index = self._validation[first : first + chunk]
            filled = numpy.resize(index, chunk) if len(index) < chunk else index
            inputs, targets = self._take(filled)
            scores = numpy.asarray(forward(inputs), dtype=numpy.float32)
            tally.add(scores[: len(index)], targets[: len(index)])
        return tally.read()


def normalise(pixels: Any) -> Any:
    """Bytes, already as float32, on the scale that the networks see; exact in every framework."""
    return (pixels - PIXEL_SHIFT) * PIXEL_SCALE


class _Tally:
    """Sums of an evaluation."""

    def __init__(self, classes: int, top: Sequence[int]) -> None:
        self._classes = classes
        self._asked_hits = dict.fromkeys(top, 0)
        self._small = classes <= CONFUSION_CLASSES
        cells = classes * classes if self._small else 1
        self._cells: Any = numpy.zeros(cells, dtype=numpy.int64)
        self._loss_sum = 0.0
        self._top_hits = self._count = 0

    def add(self, scores: Any, targets: Any) -> None:
        """Counts a chunk in; where each token has a target, a token is counted as a row."""
        classes = self._classes
        scores, targets = scores.reshape(-1, classes), targets.reshape(-1).astype(numpy.int64)
        best = scores.argmax(axis=1)
        if self._small:
            self._cells += numpy.bincount(targets * classes + best, minlength=classes * classes)
        else:
            self._cells += (best == targets).sum()
        peak = scores.max(axis=1)
        spread = numpy.exp(scores - peak[:, None]).sum(axis=1, dtype=numpy.float64)
        own = scores[numpy.arange(len(targets)), targets]
        self._loss_sum += float((numpy.log(spread) + peak - own).sum())
        if classes > TOP:
            top = numpy.argpartition(scores, -TOP, axis=1)[:, -TOP:]
            self._top_hits += int((top == targets[:, None]).any(axis=1).sum())
        else:
            self._top_hits += len(targets)
        if self._asked_hits:
            ranks = _ranks(scores, targets, own)
            for n in self._asked_hits:
                self._asked_hits[n] += int((ranks < n).sum())
        self._count += len(targets)

    def read(self) -> Evaluation:
        """The sums as the training loop takes them."""
        classes = self._classes
        return Evaluation(
            confusion=self._cells.reshape(classes, classes).tolist() if self._small else None,
            loss_sum=self._loss_sum,
            top5_hits=self._top_hits,
            row_count=self._count,
            hits=None if self._small else int(self._cells[0]),
            top_hits=dict(self._asked_hits),
        )


def _ranks(scores: Any, targets: Any, own: Any) -> Any:
    """How many classes come before each row's own; of equal ones the first, as argmax has it."""
    earlier = numpy.arange(scores.shape[1])[None, :] < targets[:, None]
    equal = scores == own[:, None]
    return ((scores > own[:, None]) | (equal & earlier)).sum(axis=1)


def _batch_sizes(spec: TrainSpec, row_count: int) -> list[int]:
    """The sizes of batch that training will meet: a last one of an epoch may be smaller."""
    if spec.training.max_steps == 0 or spec.validate_only:
        return []
    full = min(spec.training.batch_size, row_count)
    rest = row_count % full
    # Batch norm never stands on one row: such a last row is left out.
    single = rest == 1 and full > 1 and any(x.kind == "batch_norm" for x in spec.graph.layers)
    # One that is continued may begin anywhere in its epoch.
    limit = spec.training.max_steps if spec.resume is None else None
    cut = limit is not None and limit <= row_count // full
    return [full] if rest == 0 or cut or single else [full, rest]
