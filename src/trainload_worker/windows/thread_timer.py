"""A timer of the kernel that interrupts the main thread at a steady rate by a real-time signal.

The program's own signals and timers are left alone: a signal is taken whose action is the
default one, and once taken it is kept, since a last one still on its way would end the process.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import sys
import threading
import time
from typing import Any, Callable

OnTick = Callable[[int, Any], None]
"""As Python calls a signal's handler: the number and the frame that was interrupted."""
_SIGEV_THREAD_ID = 4
_TIMER_ABSTIME = 1
_NS = 1_000_000_000
_STATUS = "/proc/self/status"


class TimerRefused(RuntimeError):
    """No timer can be had here; the text says why."""


class _SignalEvent(ctypes.Structure):
    """`struct sigevent` as Linux lays it out, with the thread in its union."""

    _fields_ = [
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("thread", ctypes.c_int),
        ("rest", ctypes.c_char * 64),
    ]


class _TimeSpec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]

    @classmethod
    def of(cls, time_ns: int) -> _TimeSpec:
        return cls(time_ns // _NS, time_ns % _NS)


class _TimerSpec(ctypes.Structure):
    _fields_ = [("interval", _TimeSpec), ("value", _TimeSpec)]


_signals: list[int] = []
"""Those that this process has taken, the last one in use: one serves all timers in turn."""
_ticking: list[ThreadTimer] = []
"""The timer that runs, while one does."""


class ThreadTimer:
    """Ticks in the main thread while it runs; between bytecodes, as Python's handlers do."""

    def __init__(self, on_tick: OnTick) -> None:
        self.on_tick = on_tick
        self._timer: ctypes.c_void_p | None = None
        self._pid = 0

    def start(self, period_ns: int) -> int:
        """Begins to tick; the time of the first tick on the monotonic clock, in nanoseconds.

        Every later one is due a whole number of periods after it. TimerRefused where the thread
        is not the main one, the system is not Linux, or no signal is free.
        """
        if threading.current_thread() is not threading.main_thread():
            raise TimerRefused("the training does not run in the main thread")
        if not sys.platform.startswith("linux"):
            raise TimerRefused("the system has no timer for one thread")
        if _ticking:
            raise TimerRefused("another one samples this process already")
        number = _take_signal()
        timer, library = ctypes.c_void_p(), _library()
        wanted = _SignalEvent(
            signo=number, notify=_SIGEV_THREAD_ID, thread=threading.get_native_id()
        )
        if library.timer_create(time.CLOCK_MONOTONIC, ctypes.byref(wanted), ctypes.byref(timer)):
            raise TimerRefused(f"timer_create: {os.strerror(ctypes.get_errno())}")
        first_ns = time.monotonic_ns() + period_ns
        at = _TimerSpec(interval=_TimeSpec.of(period_ns), value=_TimeSpec.of(first_ns))
        if library.timer_settime(timer, _TIMER_ABSTIME, ctypes.byref(at), None):
            library.timer_delete(timer)
            raise TimerRefused(f"timer_settime: {os.strerror(ctypes.get_errno())}")
        self._timer, self._pid = timer, os.getpid()
        _ticking.append(self)
        return first_ns

    def stop(self) -> None:
        """Ends the ticking; the handler stays, so that a tick under way finds one."""
        timer, self._timer = self._timer, None
        if self in _ticking:
            _ticking.remove(self)
        # A forked child has no timer of its parent's.
        if timer is not None and self._pid == os.getpid():
            _library().timer_delete(timer)


def on_signal(number: int, frame: Any) -> None:
    """Python's handler of the signal."""
    for timer in _ticking:
        timer.on_tick(number, frame)


def _stop_all() -> None:
    while _ticking:
        _ticking[-1].stop()


def _take_signal() -> int:
    """The signal to tick by; one that the program has made its own since is left to it."""
    if _signals and signal.getsignal(_signals[-1]) is on_signal:
        return _signals[-1]
    number = _free_signal()
    if number is None:
        raise TimerRefused("the program uses every real-time signal itself")
    signal.signal(number, on_signal)
    # Calls of the system that were interrupted go on by themselves.
    signal.siginterrupt(number, False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    if not _signals:
        # Python's end gives signals their default action: no tick may come after it.
        atexit.register(_stop_all)
    _signals.append(number)
    return number


def _free_signal() -> int | None:
    """A real-time signal that nobody handles, ignores or blocks, from the highest down."""
    used = _used_signals()
    # glibc's highest are as good as any; debuggers and tools tend to take the lowest.
    for number in range(signal.SIGRTMAX - 1, signal.SIGRTMIN, -1):
        if not used >> (number - 1) & 1 and signal.getsignal(number) is signal.SIG_DFL:
            return number
    return None


def _used_signals() -> int:
    """Signals with another action than the default, a bit for each, whoever set them."""
    used = 0
    try:
        with open(_STATUS, encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith(("SigCgt:", "SigIgn:", "SigBlk:")):
                    used |= int(line.split()[1], 16)
    except (OSError, ValueError, IndexError) as error:
        raise TimerRefused(f"{_STATUS} cannot be read: {error}") from error
    return used


def _library() -> Any:
    """The C library's timers; before glibc 2.34 in a library of their own."""
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "timer_create"):
        try:
            library = ctypes.CDLL("librt.so.1", use_errno=True)
            library.timer_create  # noqa: B018 - raises where it is not there either
        except (OSError, AttributeError) as error:
            raise TimerRefused(f"the C library has no timers: {error}") from error
    # A timer's number is as wide as a pointer and must not be cut to an int.
    library.timer_settime.argtypes = [
        ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p
    ]  # fmt: skip
    library.timer_delete.argtypes = [ctypes.c_void_p]
    return library
