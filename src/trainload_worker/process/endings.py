"""Turns the way a run ended into an outcome, one line of reason and an exit code."""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass

from trainload_worker.errors import WorkerProblem
from trainload_worker.process.signals import Interrupted

EXIT_BAD_SPEC = 2
EXIT_EVENTS_LOST = 74  # EX_IOERR of sysexits.h

EXIT_CODES = {"completed": 0, "failed": 1, "killed": 1, "out_of_memory": 3, "interrupted": 130}

_MEMORY_WORDS = ("out of memory", "can't allocate memory", "defaultcpuallocator")
_PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_REASON_CHARACTERS = 240


@dataclass(frozen=True)
class Ending:
    """How a run ended; `reason` is None for a completed one."""

    outcome: str
    reason: str | None
    rank: int | None = None
    """Which of several processes ended it; None where none did, or there is only one."""
    signal: int | None = None
    """The signal that ended that process before it wrote its end event."""
    events_lost: int = 0
    """Events that processes other than the writing one could not write."""


def classify(error: BaseException, phase: str, folder: str | None = None) -> Ending:
    """The ending that an exception means; the reason says what, and where.

    Where is the innermost line of a file in `folder`, by default this package's own.
    """
    if isinstance(error, Interrupted):
        return Ending("interrupted", str(error))
    if isinstance(error, WorkerProblem):
        return Ending("failed", _one_line(str(error)))
    outcome = "out_of_memory" if is_out_of_memory(error) else "failed"
    text = _one_line(str(error))
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return Ending(outcome, f"{what} ({phase}{_place(error, folder)})")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the host or the device refused memory, by type or by the framework's words."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(words in text for words in _MEMORY_WORDS)


def _one_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    text = lines[0]
    if len(text) <= _REASON_CHARACTERS:
        return text
    # Whole sentences where there are any: the log has the rest.
    end = text.rfind(". ", 0, _REASON_CHARACTERS)
    return text[: end + 1] if end > 0 else text[:_REASON_CHARACTERS] + "…"


def _place(error: BaseException, folder: str | None) -> str:
    """The innermost line of a file in that folder that the error passed; empty without any."""
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = os.path.abspath(frame.f_code.co_filename)
        own = folder is None and path.startswith(_PACKAGE_FOLDER + os.sep)
        if own or os.path.dirname(path) == folder:
            shown = os.path.relpath(path, _PACKAGE_FOLDER) if own else os.path.basename(path)
            place = f", {shown} line {line}"
    return place
