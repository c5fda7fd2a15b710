"""Tells phases of a program apart from its training: preparation, validation, checkpoints.

Preparation lasts until the first backward pass, validation from its first call of a model to its
last, a checkpoint while torch or safetensors writes one. All by the host's clock.
"""

from __future__ import annotations

import sys
from time import monotonic
from typing import Any, Callable

import torch

from trainload_worker.process.events import EventWriter
from trainload_worker.protocol.events import PhaseEdge, ProbeNote

PREPARE, VALIDATE, CHECKPOINT = "prepare", "validate", "checkpoint"
MOST_PHASES = 1000
"""In one run; a program that validates at every step would fill the record with them."""


class ScriptPhases:
    """Writes an edge where a phase begins or ends; at most one is open at a time."""

    def __init__(self, events: EventWriter) -> None:
        self._events = events
        self.open: str | None = None
        """The phase that the program is in; None while it trains."""
        self._seen_s = 0.0
        self.count = 0
        """Of those that have ended."""
        self._undo: list[Callable[[], None]] = []
        self._safetensors = False

    def attach(self) -> None:
        """Begins with the preparation; sees what is saved from here on."""
        self._begin(PREPARE)
        self._cover(torch, "save")

    def detach(self) -> None:
        """Leaves what was covered as before."""
        while self._undo:
            self._undo.pop()()

    def note_validation(self) -> None:
        """A model is called to be validated."""
        if self.open != VALIDATE:
            self.end()
            self._begin(VALIDATE)

    def note_return(self) -> None:
        """A call of a model has returned."""
        if self.open == VALIDATE:
            self._seen_s = monotonic()

    def look_for_writers(self) -> None:
        """Covers safetensors once the program has loaded it."""
        module = sys.modules.get("safetensors.torch")
        if not self._safetensors and hasattr(module, "serialize_file"):
            self._safetensors = True
            self._cover(module, "serialize_file")

    def _cover(self, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def save(*args: Any, **kwargs: Any) -> Any:
            if self.open in (PREPARE, CHECKPOINT):
                return original(*args, **kwargs)
            self.end()
            self._begin(CHECKPOINT)
            try:
                return original(*args, **kwargs)
            finally:
                self.end()

        def restore() -> None:
            if getattr(owner, name) is save:
                setattr(owner, name, original)

        setattr(owner, name, save)
        self._undo.append(restore)

    def _begin(self, name: str) -> None:
        self.open, self._seen_s = name, monotonic()
        if self.count < MOST_PHASES:
            self._events.write(PhaseEdge(name, "begin", self._seen_s))
        elif self.count == MOST_PHASES:
            words = f"phases after the first {MOST_PHASES} are not told apart"
            self._events.write(ProbeNote(words, t_s=self._seen_s))

    def end(self) -> None:
        """Ends the phase that is open, as when training goes on."""
        if self.open is None:
            return
        # Between the last call of a model and what follows the program may do anything.
        end_s = self._seen_s if self.open == VALIDATE else monotonic()
        if self.count < MOST_PHASES:
            self._events.write(PhaseEdge(self.open, "end", end_s))
        self.count += 1
        self.open = None
