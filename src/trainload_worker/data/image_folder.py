"""Images in folders, one for each class; decodes with Pillow, which is imported at the first image.

Lists folders, or what a subset's manifest names, and reads the images; writes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from array import array
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Iterator, Sequence

from trainload_worker.data.cache import Decoded
from trainload_worker.errors import DataError
from trainload_worker.protocol.data import (
    IMAGE_SUFFIXES,
    SUBSET_MANIFEST,
    SUBSET_SUMMARY,
    TRAIN_FOLDER,
    VALIDATION_FOLDERS,
)

MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""Pillow's name for a number of channels."""


class FolderSource:
    """Images by class and name, those of the data's own validation folder last."""

    def __init__(
        self, path: str, shape: tuple[int, ...], classes: Sequence[str], own_validation: bool
    ) -> None:
        self.shape = shape
        self.labels = array("q")
        self._path = path
        self._files: list[tuple[str, int, int]] = []
        self._decode: Any = None
        roots = [path]
        if own_validation:
            roots = [os.path.join(path, TRAIN_FOLDER), self._validation_folder()]
        counts = []
        for root in roots:
            for label, name in enumerate(classes):
                self._list(os.path.join(root, name), label)
            counts.append(len(self.labels))
        self.train_count = counts[0]

    def identity(self) -> dict[str, Any]:
        """Every file with its size and time of change."""
        contents = [[os.path.relpath(n, self._path), *rest] for n, *rest in self._files]
        return {"source": "folder", "resize": "fit", "contents": contents}

    def name(self, item: int) -> str:
        """The file's path."""
        return self._files[item][0]

    def read(self, first: int, last: int) -> Iterator[Decoded]:
        """Pixels of those files, decoded side by side."""
        if self._decode is None:
            self._decode = make_decoder(self.shape)
        with ThreadPoolExecutor(max_workers=_count_cores()) as pool:
            yield from pool.map(self._decode, [path for path, _, _ in self._files[first:last]])

    def _validation_folder(self) -> str:
        for name in VALIDATION_FOLDERS:
            folder = os.path.join(self._path, name)
            if os.path.isdir(folder):
                return folder
        raise DataError(f"{self._path}: no folder {' or '.join(VALIDATION_FOLDERS)}")

    def _list(self, folder: str, label: int) -> None:
        if not os.path.isdir(folder):
            return  # a class without validation images
        try:
            found = sorted(_find_images(folder))
        except OSError as error:
            raise DataError(f"{error.filename or folder}: {error.strerror}") from error
        self._files.extend(found)
        self.labels.extend([label] * len(found))


class ManifestSource(FolderSource):
    """The images that a subset's manifest names, those for validation last."""

    def __init__(
        self, path: str, shape: tuple[int, ...], classes: Sequence[str], own_validation: bool
    ) -> None:
        self.shape = shape
        self.labels = array("q")
        self._files = []
        self._decode = None
        self._path = self._read_root(os.path.join(path, SUBSET_SUMMARY))
        parts: dict[str, list[tuple[str, int]]] = {"train": [], "val": []}
        for name, label, split in self._read_manifest(os.path.join(path, SUBSET_MANIFEST)):
            parts[split].append((name, label))
        for split in ("train", "val") if own_validation else ("train",):
            for name, label in parts[split]:
                self._files.append(_describe(os.path.join(self._path, name)))
                self.labels.append(label)
        self.train_count = len(parts["train"])
        if not self.labels:
            raise DataError(f"{path}: the manifest names no image of {', '.join(classes)}"[:200])

    def identity(self) -> dict[str, Any]:
        """Every file with its size and time of change, its class and its split."""
        labels = hashlib.sha256(self.labels.tobytes()).hexdigest()
        return {
            **super().identity(),
            "source": "subset",
            "labels": labels,
            "train_count": self.train_count,
        }

    def _read_root(self, path: str) -> str:
        try:
            with open(path, encoding="utf-8") as file:
                return str(json.load(file)["folder"])
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: no summary of a subset: {error}") from error

    def _read_manifest(self, path: str) -> Iterator[tuple[str, int, str]]:
        try:
            with open(path, encoding="utf-8") as lines:
                for number, line in enumerate(lines, 1):
                    yield _parse_row(line, f"{path}, line {number}")
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}") from error


def _parse_row(line: str, where: str) -> tuple[str, int, str]:
    """Path, label and split of one line of a manifest."""
    try:
        row = json.loads(line)
        found = str(row["path"]), int(row["label"]), str(row["split"])
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{where}: {error}") from error
    if found[2] not in ("train", "val"):
        raise DataError(f"{where}: the split must be train or val, not {found[2]}")
    return found


def _describe(path: str) -> tuple[str, int, int]:
    """Path, size and time of change; a file that is gone is found to be broken when decoded."""
    try:
        found = os.stat(path)
    except OSError:
        return path, -1, -1
    return path, found.st_size, found.st_mtime_ns


def _find_images(folder: str) -> Iterator[tuple[str, int, int]]:
    """Images in the folder and in those inside it, hidden ones left out; each folder once."""
    seen = set()
    waiting = [folder]
    while waiting:
        place = waiting.pop()
        known = os.stat(place)
        if (known.st_dev, known.st_ino) in seen:
            continue
        seen.add((known.st_dev, known.st_ino))
        with os.scandir(place) as entries:
            for entry in entries:
                if os.path.splitext(entry.name)[1].lower() in IMAGE_SUFFIXES:
                    if entry.is_file():
                        yield entry.path, entry.stat().st_size, entry.stat().st_mtime_ns
                elif not entry.name.startswith(".") and entry.is_dir():
                    waiting.append(entry.path)


def make_decoder(shape: tuple[int, ...]) -> Any:
    """Path -> pixels of that shape, or why there are none; DataError where Pillow is missing."""
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise DataError(
            f"images in folders need Pillow, which {sys.executable} lacks; "
            f"install it: {sys.executable} -m pip install pillow"
        ) from error
    channels, height, width = shape
    if channels not in MODES:
        raise DataError(f"an image file has 1, 3 or 4 channels, the model takes {channels}")

    def decode(path: str) -> Decoded:
        try:
            with Image.open(path) as opened:
                image = opened.convert(MODES[channels])
            # Scaled to cover the size and cut at the centre, so that shapes keep their proportions.
            image = ImageOps.fit(image, (width, height), Image.Resampling.BILINEAR)
            pixels = image.tobytes()
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - Pillow's readers raise all sorts for a broken file
            return None, f"{type(error).__name__}: {error}".splitlines()[0][:200]
        return b"".join(pixels[channel::channels] for channel in range(channels)), None

    return decode


def _count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
