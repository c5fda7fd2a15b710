"""A probe that sees no step: scripts run as under any framework, without the wait for one."""

from __future__ import annotations

from typing import Callable

from trainload_worker.frameworks.backends import Opened
from trainload_worker.process.events import EventWriter


class StepProbe:
    """Watches nothing."""

    def __init__(self, _events: EventWriter) -> None:
        self.on_backward_step: Callable[[int], None] | None = None

    def attach(self) -> None:
        """Installs no hook."""

    def finish(self) -> None:
        """Has nothing to write."""


def open_framework() -> Opened:
    """Nothing was opened."""
    return Opened(
        version="0", software={}, device="none", threads=None, accelerators=None, notes=[]
    )
