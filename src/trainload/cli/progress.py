"""The one line of progress, on standard error, and the words of a script around it.

Shows what it is told and computes nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING, TextIO

from trainload.cli.printing import is_plain

if TYPE_CHECKING:
    from trainload.run.workers.output import Stream

_QUIET_S = 10.0
"""Between two lines where nothing can be written over; after a script's last words, too."""


class ProgressLine:
    """A live line on a terminal; elsewhere a line every ten seconds. Used as a context.

    A text is written over by the next one; one that ends in a newline stays, wherever it is shown.
    Where a script prints, its words have the terminal: the line stays away until the script has
    ended its own line and been silent for a while.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._live = not quiet and sys.stderr.isatty() and not _is_simple()
        self._next_s = time.monotonic() + _QUIET_S
        self._lock = threading.Lock()
        self._drawn = False
        self._in_line = False
        self._heard_s: float | None = None

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_ending: object) -> None:
        with self._lock:
            self._clear()
            self._end_line()

    def __call__(self, text: str) -> None:
        """Show where things stand; nothing of it where no progress is wanted."""
        if self._quiet:
            return
        with self._lock:
            if text.endswith("\n"):
                self._clear()
                self._end_line()
                sys.stderr.write(text)
            elif self._script_talks():
                return
            elif self._live:
                width = shutil.get_terminal_size().columns - 1
                shown = text if len(text) <= width else text[: max(0, width - 1)] + "…"
                sys.stderr.write(f"\r{shown}\033[K")
                sys.stderr.flush()
                self._drawn = True
            elif time.monotonic() >= self._next_s:
                self._next_s = time.monotonic() + _QUIET_S
                sys.stderr.write(f"{text.strip()}\n")

    def clear(self) -> None:
        """Leaves the line empty for what is printed next."""
        with self._lock:
            self._clear()

    def is_terminal(self, stream: Stream) -> bool:
        """Whether a script's words go to a terminal there."""
        return _stream(stream).isatty()

    def is_one_place(self) -> bool:
        """Whether a script's two streams end at the same place."""
        try:
            out, err = os.fstat(sys.stdout.fileno()), os.fstat(sys.stderr.fileno())
        except (OSError, ValueError):
            return False
        return (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino)

    def size(self) -> tuple[int, int]:
        """Columns and lines of the terminal."""
        found = shutil.get_terminal_size()
        return found.columns, found.lines

    def write(self, stream: Stream, data: bytes) -> None:
        """A script's words, as they are."""
        with self._lock:
            self._clear()
            self._heard_s = time.monotonic()
            self._in_line = not data.endswith(b"\n")
            target = _stream(stream)
            if hasattr(target, "buffer"):
                target.flush()
                target.buffer.write(data)
            else:
                target.write(data.decode("utf-8", "replace"))
            target.flush()

    def _script_talks(self) -> bool:
        heard_s = self._heard_s
        recently = heard_s is not None and time.monotonic() - heard_s < _QUIET_S
        return self._in_line or recently

    def _clear(self) -> None:
        if self._live and (self._drawn or self._heard_s is None):
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
        self._drawn = False

    def _end_line(self) -> None:
        """What we print next begins a line, whatever the script has left."""
        if self._in_line:
            self._in_line = False
            sys.stdout.write("\n")
            sys.stdout.flush()


def _is_simple() -> bool:
    """Whether lines cannot be written over, or a screen reader would read each of them."""
    return is_plain() or os.environ.get("TERM") == "dumb"


def _stream(name: Stream) -> TextIO:
    return sys.stdout if name == "stdout" else sys.stderr
