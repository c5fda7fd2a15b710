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
# Loaded once: a child just forked must not begin to look for libraries.
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None


def end_with_parent(parent_pid: int) -> None:
    """Has the kernel end this process with its parent; for a child just forked, before it execs.

    Elsewhere than on Linux nothing is done: the child then looks for its parent when it starts.
    """
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent_pid:
            os._exit(1)  # the parent died before


class Interrupted(BaseException):
    """The worker was told to stop; the text says by what. Not an Exception: nobody may eat it."""


class InterruptedByKeyboard(Interrupted, KeyboardInterrupt):
    """SIGINT came while a user's program runs, which may await it as Python gives it."""


class StopRequest:
    """Remembers that a signal asked for the end, and raises Interrupted where that is safe."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._shielded = False
        self._patience_s: float | None = PATIENCE_S
        self._driver_pid: int | None = None
        self._in_program = False

    def install(self) -> None:
        """Takes over SIGINT and SIGTERM; SIGALRM only to end the patience with a hanging step.

        SIGINT stays ignored where it was when we were started, as by `nohup … &`: so does Python.
        """
        if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGTERM, self._on_signal)

    @contextlib.contextmanager
    def in_program(self) -> Iterator[None]:
        """Inside, a user's program runs: each SIGINT is a KeyboardInterrupt to it.

        Processes that it forks have Python's own handlers: they are the program's to end.
        """
        self.check()
        self._in_program = True
        os.register_at_fork(after_in_child=self._uninstall)
        try:
            yield
        finally:
            self._in_program = False

    def follow_driver(self, driver_pid: int | None) -> str | None:
        """Asks the kernel for SIGTERM when the driver dies; a note where that cannot be had.

        The kernel watches the thread that started this process, so a driver must start workers
        from a thread that outlives them (prctl(2), PR_SET_PDEATHSIG).
        """
        if driver_pid is None:
            return None
        if _libc is None:
            return "the worker cannot follow its driver's death on this system"
        if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
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

    def _uninstall(self) -> None:
        if signal.getsignal(signal.SIGINT) == self._on_signal:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if signal.getsignal(signal.SIGTERM) == self._on_signal:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _on_signal(self, number: int, _frame: Any) -> None:
        # Only the first signal acts: a second one must not cut the last words short.
        by_keyboard = self._in_program and number == signal.SIGINT
        if self.reason is not None and not by_keyboard:
            return
        orphaned = self._driver_pid is not None and os.getppid() != self._driver_pid
        self.reason = DRIVER_DIED if orphaned else signal.Signals(number).name
        if by_keyboard:
            raise InterruptedByKeyboard(self.reason)
        if not self._shielded:
            raise Interrupted(self.reason)
        if self._patience_s is not None:
            signal.signal(signal.SIGALRM, self._on_alarm)
            signal.setitimer(signal.ITIMER_REAL, self._patience_s)

    def _on_alarm(self, _number: int, _frame: Any) -> None:
        if self.reason is not None:
            raise Interrupted(self.reason)


def _is_alive(pid: int) -> bool:
    """Whether that process goes on; one that has ended and was not fetched yet does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1] not in (b"Z", b"X")
    except OSError:
        return True
