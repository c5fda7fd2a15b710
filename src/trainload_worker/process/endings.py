"""Turns what ended a run into its last event: an outcome and one line of reason."""

from __future__ import annotations

import os
import traceback

from trainload_worker.errors import WorkerProblem
from trainload_worker.process.script import exit_status, words_of
from trainload_worker.process.signals import Interrupted
from trainload_worker.protocol.events import End
from trainload_worker.protocol.outcomes import WorkerOutcome

_MEMORY_WORDS = ("out of memory", "can't allocate memory", "defaultcpuallocator")
_PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_REASON_CHARACTERS = 240


def classify(error: BaseException, phase: str, folder: str | None = None) -> End:
    """The ending that an exception means; the reason says what, and where.

    Where is the innermost line of a file in `folder`, by default this package's own.
    """
    if isinstance(error, Interrupted):
        return End("interrupted", str(error))
    if isinstance(error, WorkerProblem):
        return End("failed", _one_line(str(error)))
    if isinstance(error, SystemExit):
        if exit_status(error) == 0:
            return End("completed")
        return End("failed", _one_line(f"the script exited with {_shown(error.code)}"))
    outcome: WorkerOutcome = "out_of_memory" if is_out_of_memory(error) else "failed"
    text = _one_line(words_of(error))
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return End(outcome, f"{what} ({phase}{_place(error, folder)})")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the host or the device refused memory, by type or by the framework's words."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if not isinstance(error, RuntimeError):
        return False
    text = words_of(error).lower()
    return any(words in text for words in _MEMORY_WORDS)


def _shown(code: object) -> str:
    return repr(code) if isinstance(code, (str, int, float)) else words_of(code)


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
