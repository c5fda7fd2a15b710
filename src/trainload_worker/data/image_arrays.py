"""Images that stand uncompressed in files of their own form: MNIST's idx and CIFAR-10's batches.

Reads those files; needs no library, so other sizes are reached by nearest neighbour or a border.
"""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from array import array
from operator import itemgetter
from typing import Any, Callable, Iterator, Tuple

from trainload_worker.data.cache import Decoded
from trainload_worker.errors import DataError

MNIST_FILES = (
    ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
)
CIFAR10_TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
CIFAR10_TEST = "test_batch.bin"
CIFAR10_SHAPE = (3, 32, 32)
_CIFAR10_RECORD = 1 + 3 * 32 * 32

Shape = Tuple[int, ...]


class MnistSource:
    """The digits, or another set in the same form: training images, then the test images."""

    def __init__(self, path: str, shape: Shape, resize: str, own_validation: bool) -> None:
        self.shape = shape
        self.labels = array("q")
        self._path = path
        self._resize = resize
        self._files: list[str] = []
        self._images: list[memoryview] = []
        counts = []
        for images_name, labels_name in MNIST_FILES[: 2 if own_validation else 1]:
            sizes, pixels = self._load(images_name, 3)
            (count,), labels = self._load(labels_name, 1)
            if count != sizes[0]:
                raise DataError(
                    f"{path}: {images_name} holds {sizes[0]} images, {labels_name} {count} labels"
                )
            self.labels.extend(labels)
            size = sizes[1] * sizes[2]
            self._images.extend(pixels[n * size : (n + 1) * size] for n in range(count))
            counts.append(count)
            self._fit = make_fit((1, sizes[1], sizes[2]), shape, resize)
        self.train_count = counts[0]

    def identity(self) -> dict[str, Any]:
        """Name, size and time of change of the idx files, and the shape asked for."""
        return {"source": "mnist", "resize": self._resize, "contents": list_contents(self._files)}

    def name(self, item: int) -> str:
        """The image's number in its array, as text."""
        return f"{self._path}, image {item}"

    def read(self, first: int, last: int) -> Iterator[Decoded]:
        """Pixels of those images."""
        for item in range(first, last):
            yield self._fit(bytes(self._images[item])), None

    def _load(self, name: str, dimensions: int) -> tuple[tuple[int, ...], memoryview]:
        """Sizes and values of one idx file, compressed or not."""
        path = os.path.join(self._path, name)
        opener: Any = open
        if not os.path.exists(path):
            path, opener = path + ".gz", gzip.open
        try:
            with opener(path, "rb") as file:
                head = 4 + 4 * dimensions
                start = file.read(head)
                if start[:4] != bytes((0, 0, 8, dimensions)) or len(start) < head:
                    raise DataError(f"{path}: no idx file of bytes in {dimensions} dimension(s)")
                sizes = struct.unpack(f">{dimensions}I", start[4:])
                expected = head + _product(sizes)
                # No more than it states: what is packed may unpack to far more.
                content = start + file.read(expected - head + 1)
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or error
            raise DataError(f"{path}: {reason}") from error
        self._files.append(path)
        if len(content) != expected:
            more = "more bytes" if len(content) > expected else f"{len(content)} bytes"
            raise DataError(f"{path}: {more}, its header says {expected}")
        return sizes, memoryview(content)[head:]


class Cifar10Source:
    """CIFAR-10's binary batches: those for training, then the test batch."""

    def __init__(self, path: str, shape: Shape, resize: str, own_validation: bool) -> None:
        self.shape = shape
        self.labels = array("q")
        self._path = path
        self._resize = resize
        self._files: list[str] = []
        self._records: list[memoryview] = []
        for name in CIFAR10_TRAIN:
            if os.path.exists(os.path.join(path, name)):
                self._load(name)
        self.train_count = len(self.labels)
        if own_validation:
            self._load(CIFAR10_TEST)
        self._fit = make_fit(CIFAR10_SHAPE, shape, resize)

    def identity(self) -> dict[str, Any]:
        """Name, size and time of change of the batch files, and the shape asked for."""
        return {"source": "cifar10", "resize": self._resize, "contents": list_contents(self._files)}

    def name(self, item: int) -> str:
        """The image's number in its array, as text."""
        return f"{self._path}, image {item}"

    def read(self, first: int, last: int) -> Iterator[Decoded]:
        """Pixels of those images."""
        for item in range(first, last):
            yield self._fit(bytes(self._records[item][1:])), None

    def _load(self, name: str) -> None:
        path = os.path.join(self._path, name)
        try:
            with open(path, "rb") as file:
                content = memoryview(file.read())
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}") from error
        if not content or len(content) % _CIFAR10_RECORD:
            raise DataError(
                f"{path}: {len(content)} bytes are no whole number of {_CIFAR10_RECORD}-byte images"
            )
        self._files.append(path)
        for start in range(0, len(content), _CIFAR10_RECORD):
            record = content[start : start + _CIFAR10_RECORD]
            if record[0] > 9:
                number = start // _CIFAR10_RECORD
                raise DataError(f"{path}, image {number}: label {record[0]} is not below 10")
            self.labels.append(record[0])
            self._records.append(record)


def list_contents(paths: list[str]) -> list[list[Any]]:
    """Name, size and time of change of each file: what tells one state of it from another."""
    contents = []
    for path in paths:
        found = os.stat(path)
        contents.append([os.path.basename(path), found.st_size, found.st_mtime_ns])
    return contents


def make_fit(source: Shape, target: Shape, resize: str) -> Callable[[bytes], bytes]:
    """Brings an image of one shape to another: one look-up for all its pixels at once."""
    if source == target:
        return lambda pixels: pixels
    if source[0] != target[0]:
        raise DataError(f"the images have {source[0]} channel(s), the model takes {target[0]}")
    _, height, width = source
    places = _border_places if resize == "pad" else _nearest_places
    rows, columns = places(height, target[1]), places(width, target[2])
    blank = _product(source)
    index = [
        blank if row < 0 or column < 0 else (channel * height + row) * width + column
        for channel in range(target[0])
        for row in rows
        for column in columns
    ]
    pick = itemgetter(*index, blank)
    return lambda pixels: bytes(pick(pixels + b"\0")[:-1])


def _nearest_places(source: int, target: int) -> list[int]:
    return [(2 * place + 1) * source // (2 * target) for place in range(target)]


def _border_places(source: int, target: int) -> list[int]:
    """Places in the source, -1 on the border around it."""
    before = (target - source) // 2
    return [n - before if 0 <= n - before < source else -1 for n in range(target)]


def _product(sizes: Shape) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total
