"""Tells when torch's compiler was at work and why it began anew, by its own account.

Reads what the compiler keeps of its last compilations; imports and changes nothing of it.
"""

from __future__ import annotations

import os
import re
import sys
from time import monotonic, time
from typing import Any

import trainload_worker
from trainload_worker.process.events import EventWriter
from trainload_worker.protocol.events import COMPILE, RECOMPILE, PhaseEdge, ProbeNote

MOST_COMPILATIONS = 500
"""In one run; a program that compiles at every step would fill the record with them."""
MOST_WORDS = 200
_OWN = os.path.dirname(trainload_worker.__file__) + os.sep
"""Hooks of a window that the compiler reads: part of what the window costs."""
_HINT = re.compile(r"\s*\(HINT:.*", re.DOTALL)
_WHICH = re.compile(r"^!?\d+(?:/\d+)+: ")
"""The compilation whose guard did not hold stands before the guard."""


class Compilations:
    """Writes a phase for each compilation that has ended since the last look."""

    def __init__(self, events: EventWriter) -> None:
        self._events = events
        self._last: Any = None
        """The newest that was told."""
        self._count = 0

    @property
    def any_seen(self) -> bool:
        """Whether the program compiles anything."""
        return self._last is not None

    def look(self) -> None:
        """Now and then, and at the end: the compiler keeps some dozens. Steps are told whatever
        becomes of this."""
        compiler = sys.modules.get("torch._dynamo.utils")
        if compiler is None or self._count > MOST_COMPILATIONS:
            return
        try:
            self._tell_new(compiler.get_compilation_metrics())
        except (AttributeError, TypeError, ValueError) as error:  # a torch with other insides
            self._count = MOST_COMPILATIONS + 1
            words = f"compilations were not told: {type(error).__name__}: {error}"
            self._events.write(ProbeNote(words, t_s=monotonic()))

    def _tell_new(self, kept: list[Any]) -> None:
        new = kept
        for at in range(len(kept) - 1, -1, -1):
            if kept[at] is self._last:
                new = kept[at + 1 :]
                break
        if not new:
            return
        self._last = new[-1]
        ahead_s = time() - monotonic()
        for one in new:
            known = one.start_time_us is not None and one.end_time_us is not None
            own = str(one.co_filename).startswith(_OWN)
            if known and not own and self._count <= MOST_COMPILATIONS:
                self._tell(one, ahead_s)

    def _tell(self, one: Any, ahead_s: float) -> None:
        begin_s, end_s = (us / 1e6 - ahead_s for us in (one.start_time_us, one.end_time_us))
        self._count += 1
        if self._count > MOST_COMPILATIONS:
            words = f"compilations after the first {MOST_COMPILATIONS} are not told apart"
            self._events.write(ProbeNote(words, t_s=monotonic()))
            return
        name = RECOMPILE if is_again(str(one.compile_id)) else COMPILE
        self._events.write(PhaseEdge(name, "begin", begin_s, detail=describe(one)))
        self._events.write(PhaseEdge(name, "end", end_s))


def is_again(compile_id: str) -> bool:
    """Whether it was of code that had been compiled before: `0/2` is the third of frame 0."""
    number = compile_id.rpartition("/")[2].partition("_")[0]
    return "/" in compile_id and number.isdigit() and int(number) > 0


def describe(one: Any) -> str | None:
    """What was compiled, and what had not held of it; None where the compiler does not say."""
    name, file = one.co_name, one.co_filename
    where = f"{name} ({os.path.basename(file)}:{one.co_firstlineno})" if name and file else None
    failed = str(getattr(one, "fail_reason", None) or "")
    if "recompile limit" in failed or "_limit reached" in failed:
        where = "given up: too often, from here on it is not compiled"
    guard = getattr(one, "recompile_reason", None)
    words = [where, None if not guard else f"not so any more: {_plain(str(guard))}"]
    return "; ".join(word for word in words if word)[:MOST_WORDS] or None


def _plain(guard: str) -> str:
    text = _HINT.sub("", _WHICH.sub("", guard.strip()))
    return " ".join(text.split("#")[0].split())
