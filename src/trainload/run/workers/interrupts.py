"""Signals to the driver: SIGTERM and SIGHUP end a run like Ctrl-C, and closing is not disturbed."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trainload.errors import Terminated


def stopping_signal() -> signal.Signals:
    """What asks a worker to stop as Ctrl-C does: SIGINT, or SIGTERM where we ignore SIGINT.

    A process started by one that ignores a signal ignores it too.
    """
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    return signal.SIGTERM if ignored else signal.SIGINT


@contextmanager
def signals_as_interrupts() -> Iterator[None]:
    """Within, SIGTERM and SIGHUP raise Terminated; only the main thread can arrange that."""

    def stop(number: int, _frame: Any) -> None:
        raise Terminated(signal.Signals(number).name)

    with _handlers(stop, (signal.SIGTERM, signal.SIGHUP)):
        yield


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Within, no signal stops the closing of a record."""
    with _handlers(signal.SIG_IGN, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)):
        yield


@contextmanager
def _handlers(handler: Any, numbers: tuple[signal.Signals, ...]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
