"""The image files of one folder per class: their names and sizes, with what is none set aside.

Reads names, sizes and the first bytes of files; never decodes an image and never writes.
"""

# Names as plain bytes: a Path for each of a million files takes seconds and hundreds of MB.
# ruff: noqa: PTH112, PTH116, PTH118, PTH122, PTH208

import os
import stat
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from trainload.errors import WorkloadError

IMAGE_SUFFIXES = frozenset(b".bmp .gif .jpeg .jpg .pgm .png .ppm .tif .tiff .webp".split())
"""Those that the worker's image folders read."""

_MAGIC = (
    b"\xff\xd8\xff",
    b"\x89PNG\r\n\x1a\n",
    b"GIF87a",
    b"GIF89a",
    b"BM",
    b"II*\x00",
    b"MM\x00*",
    *(b"P%d" % kind for kind in range(1, 7)),  # portable maps
)
_MAGIC_BYTES = 12
_SPLIT_NAMES = frozenset({"train", "training", "val", "valid", "validation", "test"})
LISTED = 100
"""How many skipped files are named; the rest are only counted."""

Progress = Callable[[int], None]
"""Told now and then how many files were looked at."""


@dataclass(frozen=True, kw_only=True)
class ImageClass:
    """The images of one class in the order of their names' bytes.

    Names are kept as one text of bytes: a million of them as Python strings take 100 MB.
    """

    name: str
    joined: bytes
    sizes: "array[int]"

    def paths(self) -> list[bytes]:
        """Path of each image inside the class folder, in the order of `sizes`."""
        return self.joined.split(b"\0") if self.sizes else []


@dataclass(kw_only=True)
class Skipped:
    """Files that are no images or cannot be read, counted by reason."""

    counts: Counter[str] = field(default_factory=Counter)
    listed: list[tuple[str, str]] = field(default_factory=list)

    def add(self, path: bytes, reason: str) -> None:
        """Count one; its path is kept while there is room."""
        self.counts[reason] += 1
        if len(self.listed) < LISTED:
            self.listed.append((os.fsdecode(path), reason))


def list_classes(folder: Path) -> list[str]:
    """Names of the class folders in the order of their bytes; hidden ones are none."""
    try:
        with os.scandir(folder) as entries:
            names = [e.name for e in entries if e.is_dir() and not e.name.startswith(".")]
    except FileNotFoundError:
        raise WorkloadError(f"no such folder: {folder}") from None
    except NotADirectoryError:
        raise WorkloadError(
            f"{folder} is no folder; give one that holds a folder per class"
        ) from None
    except OSError as error:
        raise WorkloadError(f"cannot read {folder}: {error.strerror}") from error
    if not names:
        raise WorkloadError(
            f"{folder} holds no class folders; give one that holds a folder of images a class"
        )
    names.sort(key=os.fsencode)
    if _SPLIT_NAMES.issuperset(names):
        for name in names:
            if _holds_folders(folder / name):
                raise WorkloadError(
                    f"{folder} holds {', '.join(names)} and not classes; give {folder / name}"
                )
    return names


def _holds_folders(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(entry.is_dir() for entry in entries)
    except OSError:
        return False


class Scanner:
    """Reads classes one after the other, counting what was looked at and what was skipped."""

    def __init__(self, folder: Path, progress: Progress | None = None) -> None:
        self.folder = folder
        self.skipped = Skipped()
        self.seen = 0
        self._progress = progress
        self._shown_s = 0.0

    def read_class(self, name: str) -> ImageClass:
        """The images of one class folder and of the folders in it; maybe none."""
        names: list[bytes] = []
        sizes = array("q")
        root = os.fsencode(self.folder / name)
        for relative in self._walk(root):
            size = self._image_size(root, relative)
            if size is not None:
                names.append(relative)
                sizes.append(size)
        return ImageClass(name=name, joined=b"\0".join(names), sizes=sizes)

    def _walk(self, root: bytes) -> Iterator[bytes]:
        """Files below `root`, folders behind links included, each folder once."""
        visited: set[tuple[int, int]] = set()
        waiting = self._list_folder(root, b"", visited)
        while waiting:
            relative = waiting.pop()
            if os.path.splitext(relative)[1].lower() in IMAGE_SUFFIXES:
                self._tell()
                yield relative
            elif os.path.isdir(os.path.join(root, relative)):
                waiting += self._list_folder(root, relative, visited)
            else:
                self._tell()
                self.skipped.add(os.path.join(root, relative), "no image by its name")

    def _list_folder(
        self, root: bytes, relative: bytes, visited: set[tuple[int, int]]
    ) -> list[bytes]:
        """What a folder holds, last name first, hidden names left out; nothing the second time."""
        here = os.path.join(root, relative)
        try:
            status = os.stat(here)
            if (status.st_dev, status.st_ino) in visited:
                return []  # a link back up, or a second way to the same folder
            visited.add((status.st_dev, status.st_ino))
            names = [name for name in os.listdir(here) if not name.startswith(b".")]
        except OSError as error:
            self.skipped.add(here, f"unreadable folder: {error.strerror}")
            return []
        # Not the order of the directory, which differs from machine to machine.
        names.sort(reverse=True)
        return [os.path.join(relative, name) for name in names] if relative else names

    def _tell(self) -> None:
        self.seen += 1
        if self._progress is not None and self.seen % 64 == 0:
            now_s = time.monotonic()
            if now_s - self._shown_s >= 0.1:
                self._shown_s = now_s
                self._progress(self.seen)

    def _image_size(self, root: bytes, relative: bytes) -> int | None:
        """Size in bytes; None where the file is no readable image, which is counted."""
        path = os.path.join(root, relative)
        try:
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode):
                self.skipped.add(path, "no plain file")
                return None
            if status.st_size == 0:
                self.skipped.add(path, "empty")
                return None
            start = _read_start(path)
        except FileNotFoundError:
            self.skipped.add(path, "link to nothing")
            return None
        except OSError as error:
            self.skipped.add(path, f"unreadable: {error.strerror}")
            return None
        if not looks_like_image(start):
            self.skipped.add(path, "no image by its first bytes")
            return None
        return status.st_size


def _read_start(path: bytes) -> bytes:
    # Plain calls: a file object costs three times as much, and there may be a million.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, _MAGIC_BYTES)
    finally:
        os.close(handle)


def looks_like_image(start: bytes) -> bool:
    """Whether a file's first bytes are those of an image of any known kind.

    The kind need not fit the name: ImageNet itself has a PNG file that is named .JPEG.
    """
    return start.startswith(_MAGIC) or (start[:4] == b"RIFF" and start[8:12] == b"WEBP")
