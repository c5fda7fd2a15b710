"""Stops the worker when it is told to, or when its driver dies; knows nothing of training."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from typing import Any, Iterator

PATIENCE_S = 2.0
"""How long a step in progress may go on after a signal before it is abandoned."""

DRIVER_DIED = "the driver died"
_PR_SET_PDEATHSIG = 1


class Interrupted(BaseException):
    """The worker was told to stop; the text says by what. Not an Exception: nobody may eat it."""


class StopRequest:
    """Remembers that a signal asked for the end, and raises Interrupted where that is safe."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._shielded = False
        self._patience_s: float | None = PATIENCE_S
        self._driver_pid: int | None = None

    def install(self) -> None:
        """Takes over SIGINT and SIGTERM; SIGALRM ends the patience with a hanging step."""
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGALRM, self._on_alarm)

    def follow_driver(self, driver_pid: int | None) -> str | None:
        """Asks the kernel for SIGTERM when the driver dies; a note where that cannot be had.

        The kernel watches the thread that started this process, so a driver must start workers
        from a thread that outlives them (prctl(2), PR_SET_PDEATHSIG).
        """
        if driver_pid is None:
            return None
        if not sys.platform.startswith("linux"):
            return "the worker cannot follow its driver's death on this system"
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
            return f"prctl refused to follow the driver: {os.strerror(ctypes.get_errno())}"
        if os.getppid() == driver_pid:
            self._driver_pid = driver_pid
            return None
        # The driver may have died before prctl; the kernel then sends nothing.
        if _is_alive(driver_pid):
            return "the driver is not this process's parent; the parent's end is followed instead"
        self.reason = DRIVER_DIED
        raise Interrupted(self.reason)

    def check(self) -> None:
        """Raises Interrupted when the end has been asked for."""
        if self.reason is not None:
            raise Interrupted(self.reason)

    @contextlib.contextmanager
    def shielded(self, patience_s: float | None = PATIENCE_S) -> Iterator[None]:
        """Inside, a signal only sets `reason`.

        What goes on for `patience_s` after it is abandoned; None leaves that to the caller.
        """
        self.check()
        self._patience_s = patience_s
        self._shielded = True
        try:
            yield
        finally:
            self._shielded = False
            signal.setitimer(signal.ITIMER_REAL, 0)

    def calm(self) -> None:
        """Stops the timer: until the shield ends nothing is raised any more."""
        signal.setitimer(signal.ITIMER_REAL, 0)

    def ignore(self) -> None:
        """Ignores further signals, while the end of the run is being recorded."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)

    def _on_signal(self, number: int, _frame: Any) -> None:
        # Only the first signal acts: a second one must not cut the last words short.
        if self.reason is not None:
            return
        orphaned = self._driver_pid is not None and os.getppid() != self._driver_pid
        self.reason = DRIVER_DIED if orphaned else signal.Signals(number).name
        if not self._shielded:
            raise Interrupted(self.reason)
        if self._patience_s is not None:
            signal.setitimer(signal.ITIMER_REAL, self._patience_s)

    def _on_alarm(self, _number: int, _frame: Any) -> None:
        if self.reason is not None:
            raise Interrupted(self.reason)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
