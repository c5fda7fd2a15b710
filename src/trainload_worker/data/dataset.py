"""A data set in plain buffers, its standardisation and the order of its rows; framework-free."""

from __future__ import annotations

import math
import random
from array import array
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Sequence, Union

from trainload_worker.errors import DataError
from trainload_worker.protocol.events import BrokenFile, ImageCache

Buffer = Union["array[Any]", memoryview]
"""What every framework can wrap without a copy; writable, since torch asks for that."""

PIXEL_SHIFT = 128.0
PIXEL_SCALE = 1.0 / 64.0
"""uint8 -> float32 as (value - 128) / 64: powers of two, so exact and equal everywhere."""


@dataclass(frozen=True)
class Dataset:
    """Rows of features with a class index and a group each.

    `features` is row-major and of type `form`; `labels` and `groups` are int64 ("q"). A stream
    has one label for each of its tokens but the first: the next token. Its features are the
    tokens of all rows and one more, and its `labels` are empty.
    """

    features: Buffer
    labels: Buffer
    groups: Buffer
    feature_count: int
    """Values in one row."""
    classes: tuple[str, ...]
    """Names in label order; empty for a stream."""
    form: str = "float32"
    """float32 as it stands, uint8 to be normalised in the step, or int64 tokens."""
    vocabulary: int | None = None
    """How many tokens there are, in a stream."""
    validation_from: int | None = None
    """The first row of the data's own validation set, which stands last; None without one."""
    files: Sequence[str] = ()
    """Where each row's image was read from; empty unless a loader is to read it again."""
    cache: ImageCache | None = None
    """The file of decoded images it was read from."""
    broken_count: int | None = None
    broken: Sequence[BrokenFile] = ()
    """The first few image files that could not be decoded."""

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return len(self.groups)

    @property
    def class_count(self) -> int:
        """How many classes a score has."""
        return len(self.classes) if self.vocabulary is None else self.vocabulary

    @property
    def is_stream(self) -> bool:
        """Whether the next token is to be told, at each token of a row."""
        return self.vocabulary is not None

    @property
    def normalisation(self) -> str:
        """What a step does to the values."""
        return "(value - 128) / 64" if self.form == "uint8" else "none"


def standardise(dataset: Dataset, train_rows: array[int]) -> None:
    """Shifts and scales each feature in place to mean 0 and deviation 1 over the training rows.

    Only the training rows are looked at, so that nothing of the validation rows leaks into
    training. A feature that is constant there is shifted only.
    """
    width, features = dataset.feature_count, dataset.features
    if not isinstance(features, array):
        raise DataError("only features in memory can be standardised")
    for index in range(width):
        column = features[index::width]
        seen = [column[row] for row in train_rows]
        mean = math.fsum(seen) / len(seen)
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in seen) / len(seen))
        scale = 1.0 / deviation if deviation > 0 else 1.0
        features[index::width] = array("f", [(v - mean) * scale for v in column])


class RowOrder:
    """The order in which the training rows are visited, another one each epoch.

    It is drawn without any framework, so that every framework sees the same batches. A fresh
    shuffle costs some 40 ms for 80,000 rows, as long as the epoch itself on a fast accelerator,
    which would stand idle meanwhile. So two shuffles P and Q are drawn once and epoch e visits
    P[(Q[i] + offset_e) mod n]: a tenth of the time, and rows that meet in one batch part in the
    next epoch.
    """

    def __init__(self, rows: array[int], seed: int) -> None:
        self._seed = seed
        self._table = list(rows)
        self._positions = list(range(len(rows)))
        chance = random.Random(f"order-{seed}")
        chance.shuffle(self._table)
        chance.shuffle(self._positions)
        self._pick = itemgetter(*self._positions) if len(rows) > 1 else None

    def draw(self, epoch: int) -> array[int]:
        """All training rows in the order of that epoch."""
        if self._pick is None:
            return array("q", self._table)
        offset = random.Random(f"epoch-{self._seed}-{epoch}").randrange(len(self._table))
        rotated = self._table[offset:] + self._table[:offset]
        return array("q", self._pick(rotated))
