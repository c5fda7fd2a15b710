"""Appending lines to a record so that a crash at any instant damages at most the last one.

Each line is one write, so what was written before a `kill -9` stays. A full disk is counted and
never raised: measuring must not stop what it measures.
"""

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

# Made once: json.dumps with these options would build an encoder at every sample.
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class LineAppender:
    """An append-only file of JSON lines; OSError where it is a link, a pipe or a device."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o644)
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            os.close(self._fd)
            raise OSError(errno.EINVAL, "it is no plain file", str(path))
        self._torn = self._ends_torn()
        self.lost_lines = 0
        self.last_error: str | None = None

    def append(self, value: Any) -> bool:
        """Write one value as one line; False, counted, where the disk would not take it."""
        line = _encode(value).encode() + b"\n"
        if self._torn:
            line = b"\n" + line
        try:
            written = os.write(self._fd, line)
        except OSError as error:
            self._lose(error.strerror or str(error))
            return False
        if written != len(line):
            # A half line stands at the end: the next line must not run into it.
            self._torn = True
            self._lose("the disk took only part of a line")
            return False
        self._torn = False
        return True

    def close(self) -> None:
        """Close the file; harmless when called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _lose(self, reason: str) -> None:
        self.lost_lines += 1
        self.last_error = reason

    def _ends_torn(self) -> bool:
        size = os.fstat(self._fd).st_size
        return size > 0 and os.pread(self._fd, 1, size - 1) != b"\n"
