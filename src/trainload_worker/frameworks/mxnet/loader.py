"""MXNet's own input pipeline: Gluon's DataLoader with threads over the training rows."""

from __future__ import annotations

from array import array
from typing import Any, Iterator, Sequence

import mxnet
import numpy
from mxnet import gluon, nd

from trainload_worker.errors import DataError
from trainload_worker.protocol.spec import TrainSpec
from trainload_worker.training.feed import cut_batches

_AREA, _BILINEAR = 3, 1
"""OpenCV's ways of scaling down and up."""


class MxnetLoader:
    """Batches of a DataLoader, made anew for each epoch's order."""

    def __init__(self, spec: TrainSpec, features: Any, labels: Any, files: Sequence[str]) -> None:
        self._batch_size = spec.training.batch_size
        self._workers = spec.training.loader_workers
        if files and features.shape[1] == 4:
            raise DataError("mxnet decodes no images of 4 channels; train with --loader cache")
        self._rows = FileRows(files, labels, features.shape[1:]) if files else None
        if self._rows is None:
            self._rows = ArrayRows(features, labels)
        self._iterator: Iterator[Any]

    def begin_epoch(self, rows: array[int]) -> None:
        """Hands the batches to the threads, which begin at once."""
        # Processes would be forked from one whose engine has threads, which MXNet does not survive
        # with our signals in place.
        loader = gluon.data.DataLoader(
            self._rows,
            batch_sampler=cut_batches(rows, self._batch_size),
            num_workers=self._workers,
            thread_pool=True,
        )
        self._iterator = iter(loader)

    def take(self) -> tuple[Any, Any]:
        """Waits for the next batch."""
        examples, targets = next(self._iterator)
        return examples, targets


class ArrayRows(gluon.data.Dataset):  # type: ignore[misc]  # mxnet is not typed here
    """Rows that stand in memory, one at a time, as a DataLoader asks for them."""

    def __init__(self, features: Any, labels: Any) -> None:
        self._features, self._labels = features, labels

    def __len__(self) -> int:
        return len(self._features)

    def __getitem__(self, row: int) -> tuple[Any, Any]:
        return self._features[row], numpy.asarray(self._labels[row], dtype=numpy.int32)


class FileRows(gluon.data.Dataset):  # type: ignore[misc]
    """Image files, decoded and scaled by MXNet."""

    def __init__(self, files: Sequence[str], labels: Any, shape: Sequence[int]) -> None:
        self._files, self._labels = files, labels
        self._channels, self._height, self._width = shape

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, row: int) -> tuple[Any, Any]:
        path = self._files[row]
        try:
            image = mxnet.image.imread(path, flag=0 if self._channels == 1 else 1)
        except (mxnet.MXNetError, OSError) as error:
            raise DataError(f"{path} cannot be decoded by mxnet; use --loader cache") from error
        scaled = _fit(image, self._height, self._width)
        return nd.transpose(scaled, (2, 0, 1)), numpy.asarray(self._labels[row], numpy.int32)


def _fit(image: Any, height: int, width: int) -> Any:
    """Cut at the centre to the shape's proportions and scaled: the cache's way, in whole pixels."""
    rows, columns = image.shape[:2]
    scale = min(rows / height, columns / width)
    high, wide = round(scale * height), round(scale * width)
    top, left = (rows - high) // 2, (columns - wide) // 2
    interp = _AREA if scale > 1 else _BILINEAR
    return mxnet.image.fixed_crop(image, left, top, wide, high, (width, height), interp)
