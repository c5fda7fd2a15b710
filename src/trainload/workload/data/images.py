"""Images on disk: image folders, CIFAR-10's binary batches, MNIST's idx files.

Reads names, sizes and labels; decodes nothing, which is the worker's part.
"""

import gzip
import math
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainload.errors import WorkloadError
from trainload_worker.protocol.data import (
    IMAGE_SUFFIXES,
    TRAIN_FOLDER,
    VALIDATION_FOLDERS,
    ImageKind,
)

CIFAR10_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
"""In label order; source: Krizhevsky, batches.meta.txt."""
CIFAR10_FOLDER = "cifar-10-batches-bin"
CIFAR10_TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
CIFAR10_TEST = "test_batch.bin"
CIFAR10_RECORD = 1 + 3 * 32 * 32

MNIST_TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
MNIST_TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")

MOST_PACKED = 200
"""Bytes of values for each byte of a packed file; MNIST's own come to five."""

FOLDER_CHANNELS = (1, 3, 4)


@dataclass(frozen=True, kw_only=True)
class FoundImages:
    """What stands on disk, before a model says which size it takes."""

    kind: ImageKind
    path: Path
    classes: tuple[str, ...]
    rows: int
    train_rows: int
    """Those that are not in the data's own validation set."""
    has_validation: bool
    shape: tuple[int, int, int] | None
    """Channels, height and width; None where each file has its own."""


def scan_images(kind: ImageKind, path: Path) -> FoundImages:
    """Look at the data of that kind; WorkloadError says what is missing or wrong, and where."""
    if not path.is_dir():
        raise WorkloadError(
            f"--data {kind}: no such folder: {path}; trainload downloads no data set, "
            "give the folder that holds it"
        )
    try:
        return {"folder": _scan_folder, "cifar10": _scan_cifar10, "mnist": _scan_mnist}[kind](path)
    except (OSError, EOFError, zlib.error) as error:
        where, why = getattr(error, "filename", None), getattr(error, "strerror", None)
        raise WorkloadError(f"cannot read {where or path}: {why or error}") from error


def find_validation_folder(path: Path) -> Path | None:
    """The folder of validation images beside one of training images; None without both."""
    if not (path / TRAIN_FOLDER).is_dir():
        return None
    return next((path / name for name in VALIDATION_FOLDERS if (path / name).is_dir()), None)


def holds_image_folders(path: Path) -> bool:
    """Whether some sub-folder holds an image file."""
    root = path / TRAIN_FOLDER if find_validation_folder(path) else path
    return any(True for folder in _class_folders(root) for _ in _image_names(folder))


def has_cifar10(path: Path) -> bool:
    """Whether the folder, or the one that the archive unpacks to, holds CIFAR-10's batches."""
    return _cifar10_folder(path) is not None


def has_mnist(path: Path) -> bool:
    """Whether the folder holds MNIST's training images, compressed or not."""
    return _find_idx(path, MNIST_TRAIN[0]) is not None


def _scan_folder(path: Path) -> FoundImages:
    validation = find_validation_folder(path)
    root = path if validation is None else path / TRAIN_FOLDER
    folders = _class_folders(root)
    names = tuple(folder.name for folder in folders)
    if len(names) < 2:
        raise WorkloadError(
            f"{root}: {len(names)} folder(s); at least 2 classes needed, a folder of images each"
        )
    rows = 0
    for folder in folders:
        count = sum(1 for _ in _image_names(folder))
        if count == 0:
            raise WorkloadError(f"{folder}: no image in this class; known: {_listed_suffixes()}")
        rows += count
    train_rows = rows
    if validation is not None:
        for folder in _class_folders(validation):
            if folder.name not in names:
                raise WorkloadError(f"{folder}: a class that {root} does not have")
            rows += sum(1 for _ in _image_names(folder))
    return FoundImages(
        kind="folder",
        path=path,
        classes=names,
        rows=rows,
        train_rows=train_rows,
        has_validation=validation is not None,
        shape=None,
    )


def _class_folders(path: Path) -> list[Path]:
    with os.scandir(path) as entries:
        return sorted(
            path / entry.name
            for entry in entries
            if entry.is_dir() and not entry.name.startswith(".")
        )


def _image_names(folder: Path) -> Iterator[str]:
    """Names of images in the folder and in those inside it, hidden ones left out."""
    # A link may lead back to a folder above: each is read once.
    seen = set()
    waiting = [str(folder)]
    while waiting:
        place = waiting.pop()
        found = os.stat(place)  # noqa: PTH116 - a million names
        if (found.st_dev, found.st_ino) in seen:
            continue
        seen.add((found.st_dev, found.st_ino))
        with os.scandir(place) as entries:
            for entry in entries:
                if os.path.splitext(entry.name)[1].lower() in IMAGE_SUFFIXES:  # noqa: PTH122
                    yield entry.name
                elif not entry.name.startswith(".") and entry.is_dir():
                    waiting.append(entry.path)


def _listed_suffixes() -> str:
    return " ".join(sorted(IMAGE_SUFFIXES))


def _cifar10_folder(path: Path) -> Path | None:
    for folder in (path, path / CIFAR10_FOLDER):
        if any((folder / name).is_file() for name in CIFAR10_TRAIN):
            return folder
    return None


def _scan_cifar10(path: Path) -> FoundImages:
    folder = _cifar10_folder(path)
    if folder is None:
        raise WorkloadError(
            f"{path}: no data_batch_1.bin; give the folder that the binary version unpacks to"
        )
    has_test = (folder / CIFAR10_TEST).is_file()
    rows = train_rows = 0
    for name in (*CIFAR10_TRAIN, *([CIFAR10_TEST] if has_test else [])):
        file = folder / name
        if not file.is_file():
            continue
        size = file.stat().st_size
        if size == 0 or size % CIFAR10_RECORD:
            raise WorkloadError(
                f"{file}: {size} bytes are no whole number of {CIFAR10_RECORD}-byte images"
            )
        rows += size // CIFAR10_RECORD
        train_rows += size // CIFAR10_RECORD if name != CIFAR10_TEST else 0
    return FoundImages(
        kind="cifar10",
        path=folder,
        classes=CIFAR10_CLASSES,
        rows=rows,
        train_rows=train_rows,
        has_validation=has_test,
        shape=(3, 32, 32),
    )


def _scan_mnist(path: Path) -> FoundImages:
    has_test = _find_idx(path, MNIST_TEST[0]) is not None
    rows = train_rows = top = 0
    shapes = set()
    for images_name, labels_name in (MNIST_TRAIN, MNIST_TEST)[: 2 if has_test else 1]:
        (count, height, width), _none = _read_idx(path, images_name, 3, values=False)
        (labelled,), (held, largest) = _read_idx(path, labels_name, 1, values=True)
        if count != labelled or held != labelled:
            raise WorkloadError(
                f"{path}: {images_name} holds {count} images, {labels_name} "
                f"{held if held <= labelled else f'over {labelled}'} labels"
            )
        rows += count
        train_rows = train_rows or count
        top = max(top, largest)
        shapes.add((1, height, width))
    if len(shapes) > 1:
        raise WorkloadError(f"{path}: training and test images differ in size")
    if rows < 2 or top < 1:
        raise WorkloadError(f"{path}: {rows} images of {top + 1} class; at least 2 of each needed")
    return FoundImages(
        kind="mnist",
        path=path,
        classes=tuple(map(str, range(top + 1))),
        rows=rows,
        train_rows=train_rows,
        has_validation=has_test,
        shape=shapes.pop(),
    )


def _find_idx(path: Path, name: str) -> Path | None:
    return next((path / n for n in (name, f"{name}.gz") if (path / n).is_file()), None)


def _read_idx(
    path: Path, name: str, dimensions: int, *, values: bool
) -> tuple[tuple[int, ...], tuple[int, int]]:
    """Sizes that an idx file states; where asked, how many values it has and the largest one.

    Values are read in pieces, and no more of them than the header states.
    """
    file = _find_idx(path, name)
    if file is None:
        raise WorkloadError(f"{path}: no {name} (or {name}.gz)")
    opener: Any = gzip.open if file.suffix == ".gz" else Path.open
    with opener(file, "rb") as stream:
        head = stream.read(4 + 4 * dimensions)
        if head[:4] != bytes((0, 0, 8, dimensions)) or len(head) < 4 + 4 * dimensions:
            raise WorkloadError(f"{file}: no idx file of bytes in {dimensions} dimension(s)")
        sizes = struct.unpack(f">{dimensions}I", head[4:])
        _check_room(file, math.prod(sizes))
        held = largest = 0
        while values and held <= sizes[0] and (piece := stream.read(1 << 20)):
            held += len(piece)
            largest = max(largest, max(piece))
        return sizes, (held, largest)


def _check_room(file: Path, stated_bytes: int) -> None:
    """WorkloadError where a file states far more than its own bytes can hold."""
    size_bytes = file.stat().st_size
    most = size_bytes * (MOST_PACKED if file.suffix == ".gz" else 1)
    if stated_bytes > max(most, 1 << 20):
        raise WorkloadError(
            f"{file}: its header states {stated_bytes:,} bytes of values, it has {size_bytes:,}"
        )
