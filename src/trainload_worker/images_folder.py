"""Images in folders, one for each class; decodes with Pillow, which is imported at the first image.

Lists folders and reads their images, writes nothing.
"""

from __future__ import annotations

import os
from array import array
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Iterator, Sequence

from trainload_worker.cache import Decoded
from trainload_worker.errors import DataError

SUFFIXES = frozenset(
    [
        ".jpg",
        ".jpeg",
        ".jpe",
        ".jfif",
        ".png",
        ".gif",
        ".bmp",
        ".webp",
        ".tif",
        ".tiff",
        ".ppm",
        ".pgm",
        ".pbm",
        ".pnm",
    ]
)
TRAIN_FOLDER = "train"
VALIDATION_FOLDERS = ("val", "valid", "validation", "test")
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
        try:
            with os.scandir(folder) as entries:
                found = sorted(
                    (entry.path, entry.stat().st_size, entry.stat().st_mtime_ns)
                    for entry in entries
                    if os.path.splitext(entry.name)[1].lower() in SUFFIXES and entry.is_file()
                )
        except FileNotFoundError:
            return  # a class without validation images
        except OSError as error:
            raise DataError(f"{folder}: {error.strerror}") from error
        self._files.extend(found)
        self.labels.extend([label] * len(found))


def make_decoder(shape: tuple[int, ...]) -> Any:
    """Path -> pixels of that shape, or why there are none; DataError where Pillow is missing."""
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise DataError(
            "images in folders need Pillow: pip install 'trainload[images]' "
            "into the framework's environment"
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
