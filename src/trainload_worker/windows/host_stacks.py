"""Samples the Python stack of the training thread while a window is open; says what the host does.

A timer's signal interrupts the main thread, and its handler notes code and place of each frame;
they become names when the window ends. Never raises into the program it interrupts.
"""

from __future__ import annotations

import dis
import os
import sys
import sysconfig
import time
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any, Callable, Dict, List, Tuple

from trainload_worker.protocol.windows import HostStacks
from trainload_worker.windows.thread_timer import ThreadTimer, TimerRefused, on_signal

SAMPLES_A_STEP = 100
"""Aimed at, of an untraced step."""
SHORTEST_NS, LONGEST_NS = 300_000, 5_000_000
"""Between two samples: a signal costs tens of microseconds, a tenth of the shortest."""
MOST_SAMPLES = 4000
"""In one window; no more are taken after that."""
MOST_FRAMES = 100
"""Of one stack, from the innermost out."""
SCRIPT, PYTHON, OURS = "script", "python", "trainload"
"""Packages of the program's own files, of the standard library, and of what watches."""
_INSTALLED = ("site-packages", "dist-packages")
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_Stack = List[Any]
"""Code and instruction of each frame by turns, innermost first."""
_Lines = Dict[int, List[Tuple[int, int]]]
"""By identity of the code: hashing one goes through all of its content."""


class StackSampler:
    """Samples one window at a time; what it cannot do it tells in `refusal`."""

    HANDLERS: Tuple[Any, ...] = ()
    """The functions that run when a tick interrupts the program."""

    def __init__(self) -> None:
        self._timer = ThreadTimer(self._on_tick)
        self._period_ns = 0
        self._first_ns = 0
        self._next = 0
        self._runs: List[Tuple[int, int, _Stack]] = []
        self._marks: List[Tuple[int, int, int]] = []
        self._own_ns = 0
        self._queued_s: float | None = None
        self._waited_s: float | None = None
        self._on = False
        self._busy = False
        self.refusal: str | None = None
        """Why nothing is sampled, once that is known."""

    def start(self, step_s: float | None) -> None:
        """Begins to sample, at a rate that fits the time of a usual step."""
        aim_ns = int((step_s or 0.0) * 1e9 / SAMPLES_A_STEP)
        self._period_ns = min(max(aim_ns, SHORTEST_NS), LONGEST_NS)
        self._runs, self._marks = [], []
        self._own_ns = self._next = 0
        self.refusal, self._waited_s = None, None
        try:
            self._queued_s = _queued_s()
            self._first_ns = self._timer.start(self._period_ns)
            self._on = True
        except TimerRefused as refused:
            self.refusal = str(refused)
        except Exception as error:  # noqa: BLE001 - the training comes first
            self.refusal = f"{type(error).__name__}: {error}"

    def mark(self, step: int, mark: Callable[[int], None]) -> None:
        """Puts a step's mark into the trace and notes when, so that one clock fits the other."""
        before_ns = time.monotonic_ns()
        mark(step)
        self._marks.append((step, before_ns, time.monotonic_ns()))

    def stop(self) -> None:
        """Ends the sampling; what was taken is kept."""
        self._on = False
        try:
            self._timer.stop()
            before_s, self._queued_s = self._queued_s, None
            now_s = _queued_s() if before_s is not None else None
            if before_s is not None and now_s is not None:
                self._waited_s = now_s - before_s
        except Exception as error:  # noqa: BLE001 - as above
            self.refusal = f"{type(error).__name__}: {error}"

    def take(self, index: int) -> HostStacks:
        """What was sampled since the start, with names; to be called once it has been stopped."""
        frames: Dict[Tuple[Any, ...], int] = {}
        stacks: Dict[Tuple[int, ...], int] = {}
        places: Dict[Tuple[int, int], int] = {}
        lines: _Lines = {}
        samples = []
        for first, count, entries in self._runs:
            stack = []
            for code, at in zip(entries[::2], entries[1::2]):
                place = places.get((id(code), at))
                if place is None:
                    named = _name(code, _line(code, at, lines))
                    place = places[id(code), at] = frames.setdefault(named, len(frames))
                stack.append(place)
            samples.append((first, count, stacks.setdefault(tuple(stack), len(stacks))))
        found = HostStacks(
            index=index,
            note=self.refusal,
            period_ns=self._period_ns,
            taken=len(samples),
            own_s=self._own_ns / 1e9,
            waited_s=self._waited_s,
            first_ns=self._first_ns,
            frames=tuple(frames),
            stacks=tuple(stacks),
            samples=tuple(samples),
            marks=tuple(self._marks),
        )
        self._runs, self._marks = [], []
        return found

    def _on_tick(self, _number: int, frame: FrameType | None) -> None:
        """The handler: Python calls it in the main thread, between two instructions."""
        if not self._on or self._busy:
            return
        self._busy = True
        try:
            self._note(time.monotonic_ns(), frame)
        except Exception as error:  # noqa: BLE001 - it would surface in the program's own line
            self._on = False
            self.refusal = f"{type(error).__name__}: {error}"
        finally:
            self._busy = False

    def _note(self, now_ns: int, frame: FrameType | None) -> None:
        # Ticks that came while the thread was inside of one call into C are handled together, when
        # that returns: the stack was the same at each of them.
        first, last = self._next, (now_ns - self._first_ns) // self._period_ns
        if last < first:
            return  # a tick that came when this one's handler had just begun has told of both
        while frame is not None and id(frame.f_code) in _HANDLERS:
            frame = frame.f_back  # such a tick finds that handler, not the program
        entries: _Stack = []
        depth = 0
        while frame is not None and depth < MOST_FRAMES:
            entries.append(frame.f_code)
            entries.append(frame.f_lasti)
            frame = frame.f_back
            depth += 1
        self._runs.append((first, last - first + 1, entries))
        self._next = last + 1
        if len(self._runs) >= MOST_SAMPLES:
            self._on = False
        self._own_ns += time.monotonic_ns() - now_ns


StackSampler.HANDLERS = (on_signal, StackSampler._on_tick, StackSampler._note)
_HANDLERS = frozenset(id(handler.__code__) for handler in StackSampler.HANDLERS)


def _queued_s() -> float | None:
    """How long this thread has waited for a core since it began; None where nobody tells."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None


def _line(code: CodeType, at: int, known: _Lines) -> int:
    """The source line of an instruction."""
    starts = known.get(id(code))
    if starts is None:
        starts = known[id(code)] = [s for s in dis.findlinestarts(code) if s[1] is not None]
    found = code.co_firstlineno
    for offset, line in starts:
        if offset > at:
            break
        found = line
    return found


def _name(code: CodeType, line: int) -> Tuple[str, str, str, int]:
    """Package, file, function and line of a place in the source."""
    package, file = place_of(code.co_filename)
    return package, file, code.co_name, line


@lru_cache(maxsize=1)
def _library_folders() -> Tuple[str, ...]:
    """Where the standard library lies; asked once, since finding out takes long."""
    found = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    return tuple(sorted({folder for folder in found if folder}))


@lru_cache(maxsize=4096)
def place_of(path: str) -> Tuple[str, str]:
    """Package and file of a source path: installed ones from their package on, the script's short.

    No path leads out of the folder it is installed or run from, so that records tell of nobody's
    home.
    """
    if path.startswith("<"):
        return PYTHON, path
    path = os.path.normpath(path)
    if path.startswith(_HERE + os.sep):
        return OURS, os.path.join(os.path.basename(_HERE), os.path.relpath(path, _HERE))
    parts = path.split(os.sep)
    for name in _INSTALLED:
        if name in parts:
            inside = parts[len(parts) - parts[::-1].index(name) :]
            return _plain(inside[0]), "/".join(inside)
    for folder in _library_folders():
        if path.startswith(folder + os.sep):
            return PYTHON, os.path.relpath(path, folder)
    for folder in (sys.path[0], os.getcwd()):
        if folder and path.startswith(os.path.abspath(folder) + os.sep):
            return SCRIPT, os.path.relpath(path, os.path.abspath(folder))
    return SCRIPT, "/".join(parts[-2:])


def _plain(name: str) -> str:
    return name[:-3] if name.endswith(".py") else name
