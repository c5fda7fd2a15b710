"""One file of decoded images for all frameworks: builds it once, maps it into memory afterwards.

Opens no image itself: a source hands it pixels. The file, all numbers little-endian:

    one JSON object, padded with blanks and ended by a newline at `header_bytes`
    rows × channels × height × width bytes ("NCHW")
    rows × int64, the labels, at `labels_offset`
    one JSON object to the end, at `tail_offset`: broken files, SHA-256 of each shard of pixels

It is written as `KEY.part` shard by shard, with a line in `KEY.shards` for each finished one, so
that a build that was interrupted goes on where it stopped; it has its name only when it is whole.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import mmap
import os
import shutil
from array import array
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, Iterator, List, Optional, Protocol, Sequence, Tuple

from trainload_worker.errors import DataError

FORMAT = 1
SUFFIX = ".images"
SHARD_BYTES = 32 << 20
_CHECKED_SHARDS = 32
"""So many shards, evenly spread, are checked at each opening: at most a second's reading."""
_BLOCK = 4096

Decoded = Tuple[Optional[bytes], Optional[str]]
"""Pixels in the order channels, rows, columns; or None and why there are none."""
Broken = List[Tuple[str, str]]


class ImageSource(Protocol):
    """Images in a fixed order, those of the data's own validation set last."""

    shape: tuple[int, ...]
    labels: array[int]
    train_count: int
    """How many of the images stand before the data's own validation set; all without one."""

    def identity(self) -> dict[str, Any]:
        """What a cache file is valid for: content, sizes, and how images are resized."""

    def name(self, item: int) -> str:
        """The name of that image in messages: its path, or its number in an array."""

    def read(self, first: int, last: int) -> Iterator[Decoded]:
        """Pixels of the images from `first` up to, not including, `last`."""


@dataclass(frozen=True)
class CachedImages:
    """The file in memory, page by page as it is touched."""

    path: str
    pixels: memoryview
    labels: memoryview
    train_rows: int
    """Rows before the data's own validation set; all without one."""
    broken: Broken
    built: bool
    """Whether this run made it, and not one before."""


def open_cache(folder: str, source: ImageSource, classes: Sequence[str]) -> CachedImages:
    """The file of these images, which is built where it is missing or damaged; DataError if not."""
    identity = {"format": FORMAT, "shape": list(source.shape), **source.identity()}
    text = json.dumps(identity, sort_keys=True)
    key = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    path = os.path.join(folder, key + SUFFIX)
    try:
        os.makedirs(folder, exist_ok=True)
        with _locked(os.path.join(folder, key + ".lock")):
            built = not _is_whole(path)
            if built:
                _Builder(os.path.join(folder, key), source, classes, identity).build()
        return _map(path, built)
    except OSError as error:
        raise DataError(
            f"the cache {error.filename or folder}: {error.strerror}; choose another with --cache"
        ) from error


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """A lock under which one process at a time builds a file; the others wait for it."""
    with open(path, "w", encoding="ascii", opener=_open_own) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _open_own(path: str, flags: int) -> int:
    """A file of the cache, which is never a link: what stands behind one is not ours to write."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


class _Builder:
    """Writes one file from its source."""

    def __init__(
        self, stem: str, source: ImageSource, classes: Sequence[str], identity: dict[str, Any]
    ) -> None:
        self._stem = stem
        self._source = source
        self._image_bytes = math.prod(source.shape)
        self._shard_items = max(1, SHARD_BYTES // self._image_bytes)
        contents = identity.pop("contents", None)
        count = len(contents) if isinstance(contents, list) else None
        self._head = {
            "kind": "trainload images",
            **identity,
            "files": count,
            "layout": "NCHW",
            "dtype": "uint8",
            "labels_dtype": "int64",
            "classes": list(classes),
            "shard_items": self._shard_items,
        }
        # Room for the numbers that only the end of the build will tell.
        self._header_bytes = _round_up(len(json.dumps(self._head).encode()) + 1024, _BLOCK)

    def build(self) -> None:
        """Makes the file whole, from where an earlier build stopped."""
        source, part, log = self._source, self._stem + ".part", self._stem + ".shards"
        self._check_room(part)
        with open(part, "a+b", opener=_open_own):
            pass
        with open(part, "r+b", opener=_open_own) as file, open(
            log, "a+", encoding="utf-8", opener=_open_own
        ) as lines:
            digests, broken = self._resume(file, lines)
            first = len(digests) * self._shard_items
            for start in range(first, len(source.labels), self._shard_items):
                digest, lost = self._write_shard(file, start)
                digests.append(digest)
                broken.extend(lost)
                lines.write(json.dumps({"digest": digest, "broken": lost}) + "\n")
                lines.flush()
                os.fsync(lines.fileno())
            self._finish(file, digests, broken)
        os.replace(part, self._stem + SUFFIX)
        os.unlink(log)

    def _check_room(self, part: str) -> None:
        needed = self._header_bytes + (self._image_bytes + 8) * len(self._source.labels)
        present = os.path.getsize(part) if os.path.exists(part) else 0
        free = shutil.disk_usage(os.path.dirname(part)).free
        if needed - present > free:
            raise DataError(
                f"the cache needs {needed / 1e9:.1f} GB and {os.path.dirname(part)} has "
                f"{free / 1e9:.1f} GB free; choose another with --cache, or smaller images"
            )

    def _resume(self, file: BinaryIO, lines: Any) -> tuple[list[str], list[tuple[int, str]]]:
        """What an earlier build finished, as far as its bytes are still right."""
        lines.seek(0)
        digests: list[str] = []
        broken: list[tuple[int, str]] = []
        kept_lines: list[str] = []
        file.seek(self._header_bytes)
        for line in lines.read().splitlines(keepends=True):
            start = len(digests) * self._shard_items
            try:
                entry = json.loads(line)
                lost = [(int(item), str(reason)) for item, reason in entry["broken"]]
            except (ValueError, KeyError, TypeError):
                break  # the line that was being written when the build ended
            count = min(self._shard_items, len(self._source.labels) - start) - len(lost)
            pixels = file.read(count * self._image_bytes)
            whole = len(pixels) == count * self._image_bytes and line.endswith("\n")
            if count < 0 or not whole or _digest(pixels) != entry.get("digest"):
                break
            digests.append(entry["digest"])
            broken.extend(lost)
            kept_lines.append(line)
        lines.seek(0)
        lines.truncate()
        lines.write("".join(kept_lines))
        kept = min(len(digests) * self._shard_items, len(self._source.labels)) - len(broken)
        file.seek(self._header_bytes + kept * self._image_bytes)
        file.truncate()
        return digests, broken

    def _write_shard(self, file: BinaryIO, start: int) -> tuple[str, list[tuple[int, str]]]:
        last = min(start + self._shard_items, len(self._source.labels))
        lost = []
        parts = []
        for item, (pixels, reason) in enumerate(self._source.read(start, last), start):
            if pixels is None:
                lost.append((item, reason or "unreadable"))
            else:
                assert len(pixels) == self._image_bytes
                parts.append(pixels)
        joined = b"".join(parts)
        file.write(joined)
        file.flush()
        os.fsync(file.fileno())
        return _digest(joined), lost

    def _finish(self, file: BinaryIO, digests: list[str], broken: list[tuple[int, str]]) -> None:
        """Writes labels, tail and header, in that order."""
        source = self._source
        gone = {item for item, _ in broken}
        labels = array("q", [n for item, n in enumerate(source.labels) if item not in gone])
        if not labels:
            name, reason = source.name(broken[0][0]), broken[0][1]
            raise DataError(f"none of the {len(broken)} images can be read; {name}: {reason}")
        pixels_end = self._header_bytes + len(labels) * self._image_bytes
        labels_offset = _round_up(pixels_end, 64)
        file.seek(pixels_end)
        file.write(b"\0" * (labels_offset - pixels_end))
        file.write(labels.tobytes())
        tail = {
            "broken": [[source.name(item), reason] for item, reason in broken],
            "shard_sha256": digests,
            "shard_rows": _shard_rows(digests, self._shard_items, len(source.labels), broken),
            "labels_sha256": _digest(labels.tobytes()),
        }
        tail_bytes = json.dumps(tail).encode()
        file.write(tail_bytes)
        tail_offset = labels_offset + 8 * len(labels)
        head = {
            **self._head,
            "header_bytes": self._header_bytes,
            "rows": len(labels),
            "train_rows": source.train_count - sum(n < source.train_count for n in gone),
            "labels_offset": labels_offset,
            "tail_offset": tail_offset,
            "file_bytes": tail_offset + len(tail_bytes),
            "tail_sha256": _digest(tail_bytes),
        }
        text = json.dumps({**head, "header_sha256": _digest_of(head)}).encode()
        assert len(text) < self._header_bytes
        file.seek(0)
        file.write(text.ljust(self._header_bytes - 1) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _shard_rows(
    digests: list[str], shard_items: int, items: int, broken: list[tuple[int, str]]
) -> list[int]:
    rows = [min(shard_items, items - shard * shard_items) for shard in range(len(digests))]
    for item, _ in broken:
        rows[item // shard_items] -= 1
    return rows


def _is_whole(path: str) -> bool:
    """Whether the file is there, of its length, and its checksums hold where they are tried."""
    try:
        with open(path, "rb") as file:
            head = _read_head(file)
            if os.path.getsize(path) != head["file_bytes"]:
                return False
            file.seek(head["labels_offset"])
            labels = file.read(8 * head["rows"])
            text = file.read()
            tail = json.loads(text)
            if _digest(text) != head["tail_sha256"] or _digest(labels) != tail["labels_sha256"]:
                return False
            return _shards_hold(file, head, tail)
    except FileNotFoundError:
        return False
    except (ValueError, KeyError, TypeError):
        return False


def _shards_hold(file: BinaryIO, head: dict[str, Any], tail: dict[str, Any]) -> bool:
    image_bytes = math.prod(head["shape"])
    digests, rows = tail["shard_sha256"], tail["shard_rows"]
    step = max(1, math.ceil(len(digests) / _CHECKED_SHARDS))
    for shard in range(0, len(digests), step):
        file.seek(head["header_bytes"] + sum(rows[:shard]) * image_bytes)
        if _digest(file.read(rows[shard] * image_bytes)) != digests[shard]:
            return False
    return True


def _map(path: str, built: bool) -> CachedImages:
    with open(path, "rb") as file:
        head = _read_head(file)
        file.seek(head["tail_offset"])
        tail = json.loads(file.read())
        # Private and writable: no page is ever written, but torch wraps no read-only memory.
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    pixels = head["rows"] * math.prod(head["shape"])
    labels_offset = head["labels_offset"]
    return CachedImages(
        path=path,
        pixels=mapped[head["header_bytes"] : head["header_bytes"] + pixels],
        labels=mapped[labels_offset : labels_offset + 8 * head["rows"]].cast("q"),
        train_rows=head["train_rows"],
        broken=[(name, reason) for name, reason in tail["broken"]],
        built=built,
    )


def _read_head(file: BinaryIO) -> dict[str, Any]:
    """The header in the first line; ValueError where it is not that of a cache."""
    head = json.loads(file.readline())
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ValueError("another format")
    if head.pop("header_sha256", None) != _digest_of(head):
        raise ValueError("damaged")
    return head


def _digest_of(head: dict[str, Any]) -> str:
    return _digest(json.dumps(head, sort_keys=True).encode())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step
