"""The one line of progress, on standard error; shows what it is told and computes nothing."""

from __future__ import annotations

import shutil
import sys
import time

_QUIET_S = 10.0
"""Between two lines where nothing can be written over."""


class ProgressLine:
    """A live line on a terminal; elsewhere a line every ten seconds. Used as a context.

    A text is written over by the next one; one that ends in a newline stays, wherever it is shown.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._live = not quiet and sys.stderr.isatty()
        self._next_s = time.monotonic() + _QUIET_S

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_ending: object) -> None:
        self.clear()

    def __call__(self, text: str) -> None:
        """Show where things stand; nothing of it where no progress is wanted."""
        if self._quiet:
            return
        if text.endswith("\n"):
            self.clear()
            sys.stderr.write(text)
        elif self._live:
            width = shutil.get_terminal_size().columns - 1
            shown = text if len(text) <= width else text[: max(0, width - 1)] + "…"
            sys.stderr.write(f"\r{shown}\033[K")
            sys.stderr.flush()
        elif time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _QUIET_S
            sys.stderr.write(f"{text.strip()}\n")

    def clear(self) -> None:
        """Leaves the line empty for what is printed next."""
        if self._live:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
