"""Leaves checkpoints of a training and begins from one; knows no framework.

Opens and writes checkpoint files alone; what stands in them the backend's state decides.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from trainload_worker.errors import CheckpointError
from trainload_worker.process.events import EventWriter
from trainload_worker.protocol.events import CheckpointSaved
from trainload_worker.protocol.spec import TrainSpec
from trainload_worker.training.safetensors_file import Tensors, load_tensors, save_tensors
from trainload_worker.training.state import ModelState, Position, is_optimizers

FORMAT = "trainload checkpoint 1"
OTHER_OPTIMIZER = "the checkpoint is {}'s: {} begins without what an optimizer keeps"


@dataclass(frozen=True)
class Resumed:
    """A checkpoint that a training begins from, mapped into memory; without one, the beginning."""

    tensors: Tensors
    position: Position
    optimizer: str | None
    """Whose figures it holds."""

    def load_into(self, state: ModelState, optimizer: str) -> None:
        """Gives the state over; the figures of another optimizer are left out."""
        own = self.optimizer == optimizer
        kept = {n: values for n, values in self.tensors.items() if own or not is_optimizers(n)}
        state.load(kept, self.position.steps if own else 0)


def open_resumed(spec: TrainSpec) -> tuple[Resumed | None, list[str]]:
    """The checkpoint to begin from, None without one, and what the record should say of it."""
    if spec.resume is None:
        return None, []
    path = spec.resume.path
    tensors, metadata = load_tensors(path)
    if metadata.get("format") != FORMAT:
        raise CheckpointError(f"{path} is no checkpoint of this form: {metadata.get('format')!r}")
    try:
        position = Position(
            epochs=int(metadata["epoch"]),
            rows=int(metadata["rows_into_epoch"]),
            steps=int(metadata["step"]),
        )
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"{path} does not say how far it is: {error}") from error
    saved, own = metadata.get("optimizer"), spec.training.optimizer.name
    other = saved != own and not spec.validate_only
    notes = [OTHER_OPTIMIZER.format(saved, own)] if other else []
    if position.rows and any(x.kind == "dropout" for x in spec.graph.layers):
        notes.append("the epoch was cut short: dropout's stream of it begins anew")
    return Resumed(tensors, position, saved), notes


class Checkpoints:
    """Writes what a run was asked to save; a failure between epochs is told and passed over."""

    def __init__(self, spec: TrainSpec, state: ModelState, events: EventWriter) -> None:
        self._spec = spec
        self._state = state
        self._events = events

    def after_epoch(self, position: Position) -> None:
        """Saves where that many epochs are to be saved; goes on training where that fails."""
        save = self._spec.save
        if save is None or save.every is None or position.rows or position.epochs % save.every:
            return
        try:
            self._write(save.epoch_form.format(epoch=position.epochs), position)
        except CheckpointError as error:
            self._events.write(CheckpointSaved("failed", reason=str(error)))

    def at_end(self, position: Position) -> None:
        """Saves the end; CheckpointError where that fails."""
        if self._spec.save is not None:
            self._write(self._spec.save.path, position)

    def _write(self, path: str, position: Position) -> None:
        save = self._spec.save
        assert save is not None, "asked for by its callers"
        start_s = time.monotonic()
        metadata = {
            **save.metadata,
            "format": FORMAT,
            "framework": self._spec.framework,
            "optimizer": self._spec.training.optimizer.name,
            "epoch": str(position.epochs),
            "rows_into_epoch": str(position.rows),
            "step": str(position.steps),
        }
        size = save_tensors(path, self._state.read(), metadata)
        self._events.write(
            CheckpointSaved(
                state="saved",
                file=os.path.basename(path),
                epoch=position.epochs,
                step=position.steps,
                bytes=size,
                cost_s=time.monotonic() - start_s,
                t_s=time.monotonic(),
            )
        )
