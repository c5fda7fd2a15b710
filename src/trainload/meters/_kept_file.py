"""Kernel files kept open and read again from the start; knows nothing of what they hold."""

import os
from pathlib import Path

from trainload.errors import MeterError


class KeptFile:
    """One file of /proc or /sys, opened once: a read is a single system call.

    The constructor lets OSError through, so that an opener can say why its meter is absent;
    a later failure is a MeterError.
    """

    def __init__(self, path: Path, size_bytes: int = 4096) -> None:
        self.path = str(path)
        self._size_bytes = size_bytes
        self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> bytes:
        """The start of the file's present content, up to the size given at opening."""
        try:
            return os.pread(self._fd, self._size_bytes, 0)
        except OSError as error:
            raise MeterError(f"{self.path} stopped answering: {error.strerror}") from error

    def read_whole(self) -> bytes:
        """All of a file that the kernel hands out in pieces: a table of many records."""
        parts: list[bytes] = []
        offset = 0
        try:
            while part := os.pread(self._fd, self._size_bytes, offset):
                parts.append(part)
                offset += len(part)
        except OSError as error:
            raise MeterError(f"{self.path} stopped answering: {error.strerror}") from error
        return b"".join(parts)

    def read_int(self) -> int:
        """The file's present content as one whole number."""
        text = self.read()
        try:
            return int(text)
        except ValueError as error:
            raise MeterError(f"{self.path} holds no whole number: {text[:40]!r}") from error

    def close(self) -> None:
        """Give the descriptor back; harmless when called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def render_os_error(error: OSError) -> str:
    """Why a file could not be had, for a quantity's reason."""
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def load_line(path: Path) -> str | None:
    """A small file's text without its line end; None where it cannot be read or is empty."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def load_int(path: Path) -> int | None:
    """A small file's whole number; None where there is none."""
    text = load_line(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
