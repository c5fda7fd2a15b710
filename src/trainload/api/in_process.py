"""Traces steps of a module that lives in this process, in a fork of it.

Whatever the worker changes in torch it changes in a process forked for it, which then ends; here
nothing of the user's is touched. Imports no framework: a module brings its own.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from trainload.errors import UsageError
from trainload.run.workers.processes import ExitWatch, wait_for_any_exit

if TYPE_CHECKING:
    from trainload.run import BuildFunction, OpTraceRequest, OpTraceResult
    from trainload.workload import Optimizer
    from trainload_worker.protocol.spec import TraceSpec


@dataclass(frozen=True, kw_only=True)
class HandedStep:
    """A step of a torch module that was handed over with the function for its loss."""

    module: Any
    loss: Callable[[], Any]
    batch_size: int
    precision: str
    optimizer: Optimizer

    @property
    def build(self) -> BuildFunction:
        """As if a function had built it; module and loss go with the forked process itself."""
        from trainload.run import BuildFunction

        kind = type(self.module)
        return BuildFunction(
            path=Path(kind.__module__),
            name=kind.__name__,
            batch_size=self.batch_size,
            precision=self.precision,
            optimizer=self.optimizer.name,
            learning_rate=self.optimizer.learning_rate,
            momentum=self.optimizer.momentum,
        )


def fork_op_trace(
    request: OpTraceRequest, step: HandedStep, folder: Path, show: Callable[[str], None]
) -> OpTraceResult:
    """Trace the step in a fork of this process; UsageError where it cannot be forked."""
    from trainload.run import follow_op_trace

    if not hasattr(os, "fork"):
        raise UsageError(
            "a module is traced in a fork of its process, which this system does not offer; "
            "estimate a function in a file instead, such as my.py:build"
        )
    return follow_op_trace(request, folder, lambda spec, log: _fork(step, spec, log), show)


class _Fork:
    """A forked process, seen from the one it came from."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._status: int | None = None
        self._exit = ExitWatch(pid)

    def wait(self, timeout_s: float) -> int | None:
        """The exit status, negative for a signal; None if it still runs."""
        deadline_s = time.monotonic() + timeout_s
        while not self._ended() and (left_s := deadline_s - time.monotonic()) > 0:
            wait_for_any_exit([self._exit], left_s)
        return self._status

    def end(self, grace_s: float, first: int = signal.SIGTERM) -> int:
        """Ask with a signal, then insist with SIGKILL after the grace time."""
        self._send(first)
        if self.wait(grace_s) is None:
            self._send(signal.SIGKILL)
            while self.wait(grace_s) is None:
                pass
        assert self._status is not None
        return self._status

    def sweep(self) -> None:
        """End it if it still runs."""
        if not self._ended():
            self.end(0.0, signal.SIGKILL)
        self._exit.close()

    def _send(self, number: int) -> None:
        if not self._ended():
            os.kill(self._pid, number)

    def _ended(self) -> bool:
        if self._status is None:
            try:
                pid, status = os.waitpid(self._pid, os.WNOHANG)
            except ChildProcessError:  # this program lets the system take its children
                self._status = 0
            else:
                self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status is not None


def _fork(step: HandedStep, spec: TraceSpec, log: Path) -> _Fork:
    try:
        with warnings.catch_warnings():
            # From Python 3.12 on: that threads do not come along. Nothing waits for any.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
    except OSError as error:
        raise UsageError(
            f"this process cannot be forked ({error.strerror}); "
            "estimate a function in a file instead, such as my.py:build"
        ) from error
    if pid == 0:
        _trace_and_exit(step, spec, log)
    return _Fork(pid)


def _trace_and_exit(step: HandedStep, spec: TraceSpec, log: Path) -> NoReturn:
    """The life of the forked process; nothing that was registered for the end of this one runs."""
    status = 1
    try:
        _leave_signals()
        _leave_streams(log)
        from trainload.integrations.door import trace_handed

        trace_handed(step.module, step.loss, spec)
        status = 0
    except BaseException:  # noqa: BLE001 - its log has it, and nobody else may go on from here
        traceback.print_exc()
    finally:
        os._exit(status)


def _leave_signals() -> None:
    """Ended at once where it is told to: handlers and wake-ups are those of the first process."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _leave_streams(log: Path) -> None:
    """What the module or torch prints goes to the log; a notebook's streams are left alone."""
    words = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, number in ((nothing, 0), (words, 1), (words, 2)):
        os.dup2(source, number)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for as long as the process lives
    sys.stdout = sys.stderr = open(  # noqa: SIM115
        1, "w", buffering=1, errors="replace", closefd=False
    )
