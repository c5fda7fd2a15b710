"""Reads and sets the state of a JAX training: parameters, running figures, Optax's state."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Mapping

import jax
import jax.numpy as jnp

from trainload_worker.errors import CheckpointError
from trainload_worker.frameworks.arrays.state import channels_last_axes, from_tensor, to_tensor
from trainload_worker.protocol.spec import TrainSpec
from trainload_worker.training.safetensors_file import Tensor, Tensors
from trainload_worker.training.state import SLOTS, slot_name

_RUNNING = {"mean": "running_mean", "variance": "running_var"}
_FIELDS = {
    "momentum_buffer": "trace",
    "exp_avg": "mu",
    "exp_avg_sq": "nu",
    "square_avg": "nu",
}
"""Where Optax's states keep a slot; adagrad's state is the slot itself."""


class JaxState:
    """The state of one training, which its backend holds as one value."""

    def __init__(
        self, spec: TrainSpec, read: Callable[[], Any], write: Callable[[Any], None]
    ) -> None:
        self._read, self._write = read, write
        self._slots = SLOTS[spec.training.optimizer.name]
        self._axes = channels_last_axes(spec.graph)

    def read(self) -> Tensors:
        """Copies in host memory; waits for the device."""
        parameters, rest, kept, _ = self._read()
        tensors = self._read_tree(parameters, str)
        tensors.update(self._read_tree(rest, str))
        for slot, tree in self._slot_trees(kept):
            tensors.update(self._read_tree(tree, partial(slot_name, slot)))
        return tensors

    def load(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        """Replaces the whole state; dropout goes on from the number of steps."""
        parameters, rest, kept, counter = self._read()
        parameters = self._load_tree(parameters, tensors, str)
        rest = self._load_tree(rest, tensors, str)
        for slot, tree in self._slot_trees(kept):
            loaded = self._load_tree(tree, tensors, partial(slot_name, slot))
            kept = tuple(_replace(part, tree, loaded, steps) for part in kept)
        self._write((parameters, rest, kept, jnp.full_like(counter, steps)))

    def begin_epoch(self, epoch: int) -> None:
        """Nothing: each step's key comes from its number."""

    def _slot_trees(self, kept: Any) -> list[tuple[str, Any]]:
        """What Optax keeps of the parameters, by slot; none of sgd without momentum."""
        found = []
        for slot in self._slots:
            for part in kept:
                field = _FIELDS.get(slot)
                if field is not None and hasattr(part, field):
                    found.append((slot, getattr(part, field)))
                elif field is None and jax.tree.leaves(part):
                    found.append((slot, part))
        return found

    def _read_tree(self, tree: Any, rename: Callable[[str], str]) -> Tensors:
        leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
        tensors = {}
        for path, leaf in leaves:
            layer, parameter = _address(path)
            axes = self._axes.get((layer, parameter))
            tensors[rename(f"{layer}.{parameter}")] = to_tensor(jax.device_get(leaf), axes)
        return tensors

    def _load_tree(
        self, tree: Any, tensors: Mapping[str, Tensor], rename: Callable[[str], str]
    ) -> Any:
        leaves, form = jax.tree_util.tree_flatten_with_path(tree)
        loaded = []
        for path, leaf in leaves:
            layer, parameter = _address(path)
            axes = self._axes.get((layer, parameter))
            name = rename(f"{layer}.{parameter}")
            values = from_tensor(tensors, name, leaf.shape, axes)
            # A copy of its own: the step gives its memory away.
            loaded.append(leaf if values is None else jnp.array(values, leaf.dtype, copy=True))
        return jax.tree_util.tree_unflatten(form, loaded)


def _address(path: Any) -> tuple[str, str]:
    """Layer and parameter of a leaf, by the names of a checkpoint."""
    words = [str(key.key) for key in path if hasattr(key, "key")]
    if len(words) < 2:
        raise CheckpointError(f"jax keeps {words}, which no checkpoint has a name for")
    return words[-2], _RUNNING.get(words[-1], words[-1])


def _replace(part: Any, old: Any, new: Any, steps: int) -> Any:
    """An Optax state with one tree replaced, and its count of updates set."""
    if part is old:
        return new
    fields = getattr(part, "_fields", ())
    if not any(getattr(part, field) is old for field in fields):
        return part
    changes = {field: new for field in fields if getattr(part, field) is old}
    if "count" in fields:
        changes["count"] = jnp.full_like(part.count, steps)
    return part._replace(**changes)
