"""Tables that need no trial: what this user's trainload wrote, and what was tried before.

They are known by a digest of their content and of polars' version, kept as lines of one small file
in the user's cache. Where that cannot be read or written, nothing is known and nothing is lost.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from trainload.files import write_whole
from trainload.workload.places import cache_folder

MOST_KEPT = 1 << 15
"""Digests; the older half goes when there are more."""
_FILE = "sound-tables"
_LINE_BYTES = 65

Mark = tuple[Path, int, int, int]


@dataclass
class _Seen:
    """The file as it was last read; read again only where another process has changed it."""

    mark: Mark | None = None
    digests: set[bytes] = field(default_factory=set)


_seen = _Seen()


def digest_of(data: bytes) -> bytes:
    """What a table of this content is known by, with the polars that is installed."""
    import polars as pl

    found = hashlib.sha256(f"polars {pl.__version__}\n".encode())
    found.update(data)
    return found.hexdigest().encode()


def is_known(digest: bytes) -> bool:
    """Whether such a table was written here or survived its trial."""
    return digest in _digests()


def remember(digest: bytes) -> None:
    """Know such a table from now on; nothing happens where the cache refuses."""
    kept = _digests()
    if digest in kept:
        return
    try:
        path = _path()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if len(kept) >= MOST_KEPT:
            lines = [*_lines(path)[-MOST_KEPT // 2 :], digest]
            write_whole(path, b"\n".join(lines) + b"\n")
        else:
            _append(path, digest)
    except (OSError, RuntimeError):
        return


def _append(path: Path, digest: bytes) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        # One write: lines of several processes do not mix, and a torn one is no digest.
        written = os.write(descriptor, b"\n" + digest + b"\n")
        mark = _mark(path, os.fstat(descriptor))
    finally:
        os.close(descriptor)
    if _seen.mark is not None and mark[:2] == _seen.mark[:2] and mark[2] - written == _seen.mark[2]:
        _seen.mark = mark  # nobody else wrote
        _seen.digests.add(digest)


def _path() -> Path:
    """RuntimeError where this user has no home."""
    return cache_folder(None) / _FILE


def _mark(path: Path, found: os.stat_result) -> Mark:
    return path, found.st_ino, found.st_size, found.st_mtime_ns


def _digests() -> set[bytes]:
    """What the file holds."""
    try:
        path = _path()
        mark = _mark(path, path.lstat())
        if mark != _seen.mark:
            _seen.digests = set(_lines(path))
            _seen.mark = mark
    except (OSError, RuntimeError):
        return set()
    return _seen.digests


def _lines(path: Path) -> list[bytes]:
    """The digests in the file; none where others than the user could have written them."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        ours = found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not stat.S_ISREG(found.st_mode) or not ours:
            return []
        # Two line breaks a digest at most, and one digest of each process beyond the bound.
        data = file.read(4 * MOST_KEPT * _LINE_BYTES)
    return [line for line in data.split(b"\n") if len(line) == _LINE_BYTES - 1]
