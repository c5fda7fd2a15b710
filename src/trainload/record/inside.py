"""The one door to the files of a run directory, which may come from a stranger.

Follows no link, opens plain files only, and reads no more than a size that is stated up front.
"""

import gzip
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

LARGEST_DOCUMENT_BYTES = 16 << 20
"""Of run.json and estimate.json: read whole, and many times as large once parsed."""
LARGEST_LINES_BYTES = 1 << 30
"""Of a file of lines, which is read in pieces."""
LONGEST_LINE_BYTES = 8 << 20
"""A longer line counts as damaged."""
DEEPEST = 50
"""Levels of a document; a record's own have under ten."""
LARGEST_NUMBER = 1e30
_MOST_DIGITS = 31
_PIECE_BYTES = 1 << 20


class NotPlain(OSError):
    """A link, a pipe, a device or a folder where a file should be; `strerror` says which."""


class TooLarge(OSError):
    """A file over the size that its kind may have; `strerror` says both."""


def open_inside(path: Path, *, largest_bytes: int | None = None) -> BinaryIO:
    """A file of a run directory, open for reading; OSError with words where it may not be.

    The directory itself may be a link, since the user named it; what is in it may not.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if path.is_symlink():
            words = "it is a link, and no link in a run directory is followed"
            raise NotPlain(error.errno, words, str(path)) from None
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotPlain(0, "it is no plain file", str(path))
        if largest_bytes is not None and found.st_size > largest_bytes:
            words = f"it has {found.st_size:,} bytes; at most {largest_bytes:,} are read"
            raise TooLarge(0, words, str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_inside(path: Path, largest_bytes: int = LARGEST_DOCUMENT_BYTES) -> bytes:
    """A whole file of a run directory; OSError as `open_inside`."""
    with open_inside(path, largest_bytes=largest_bytes) as file:
        # A buffer of the size asked for is made at once.
        return file.read(os.fstat(file.fileno()).st_size)


def read_end(path: Path, size_bytes: int) -> tuple[bytes, bool]:
    """The last bytes of a file of a run directory, and whether there are more before them."""
    with open_inside(path) as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - size_bytes))
        return file.read(size_bytes), end > size_bytes


def parse_json(text: str | bytes, **hooks: Any) -> Any:
    """The value of a JSON text; ValueError where it is none, or nested too deep to be walked.

    A number beyond LARGEST_NUMBER is None: it was not measured, and sums would leave the floats.
    """
    try:
        value = json.loads(text, parse_float=_real, parse_int=_whole, **hooks)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    # Most texts have so few brackets that they cannot be deep.
    if data.count(b"{") + data.count(b"[") > DEEPEST and _is_deep(value):
        raise ValueError("it is nested too deep")
    return value


def _real(text: str) -> float | None:
    value = float(text)
    return value if abs(value) <= LARGEST_NUMBER else None


def _whole(text: str) -> int | None:
    return int(text) if len(text) <= _MOST_DIGITS else None


def _is_deep(value: Any) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST):
        inner = (one.values() if isinstance(one, dict) else one for one in level)
        level = [item for one in inner for item in one if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def is_plain(path: Path) -> bool:
    """Whether a file is there that the door would open; a link to one is none."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def split_lines(file: BinaryIO) -> Iterator[tuple[bytes | None, int]]:
    """The lines of a file from where it stands, read in pieces, each with the offset after it.

    A line over LONGEST_LINE_BYTES is None. What follows the last line break is not given.
    """
    at = file.tell()
    kept, too_long = b"", False
    while piece := file.read(_PIECE_BYTES):
        *lines, rest = (kept + piece).split(b"\n")
        for line in lines:
            at += len(line) + 1
            yield (None if too_long or len(line) > LONGEST_LINE_BYTES else line), at
            too_long = False
        kept = rest
        if len(kept) > LONGEST_LINE_BYTES:
            at += len(kept)
            kept, too_long = b"", True


def unpack(file: BinaryIO) -> Iterator[bytes]:
    """The content of a gzip file in pieces.

    TooLarge, an OSError, where it is far more than its own bytes can honestly hold; EOFError and
    zlib.error as gzip raises them.
    """
    size_bytes = os.fstat(file.fileno()).st_size
    given = 0
    with gzip.open(file) as plain:
        while piece := plain.read(_PIECE_BYTES):
            given += len(piece)
            if given > most_unpacked(size_bytes):
                raise TooLarge(0, f"its {size_bytes:,} bytes unpack to over {given:,}")
            yield piece


def most_unpacked(packed_bytes: int) -> int:
    """Bytes that so many of a trace may unpack to; real ones come to a fifth of it."""
    return (16 << 20) + 100 * packed_bytes
