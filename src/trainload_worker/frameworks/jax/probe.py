"""Records the steps that a JAX program tells; nothing of JAX says by itself what a step is."""

from __future__ import annotations

from importlib import metadata
from typing import Any, Callable

from trainload_worker.frameworks.backends import Opened
from trainload_worker.process.events import EventWriter
from trainload_worker.training.told_steps import ToldSteps


class StepProbe:
    """Takes what `mark_step` is told; the first step begins when the watching does."""

    def __init__(self, events: EventWriter) -> None:
        self._told = ToldSteps(events)
        self.on_backward_step: Callable[[int], None] | None = None

    def attach(self) -> None:
        """Begins the first step."""
        self._told.begin()

    def mark_step(self, loss: Any = None, examples: int | None = None) -> None:
        """A step was given to the device; its end is when `loss` is there."""
        self._told.mark(loss, examples)

    def finish(self) -> None:
        """Writes what is still held; waits for the device."""
        self._told.finish()


def open_framework() -> Opened:
    """Versions from the packages' metadata: no device is touched."""
    versions = {name: _version(name) for name in ("jax", "jaxlib", "flax", "optax")}
    return Opened(
        version=versions["jax"] or "unknown",
        software={name: version for name, version in versions.items() if version},
        device="as the program chooses",
        threads=None,
        accelerators=None,
        notes=["steps are those that the program tells"],
    )


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
