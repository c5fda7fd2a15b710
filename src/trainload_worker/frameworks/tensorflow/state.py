"""Reads and sets the variables of a Keras model and its optimizer's slots."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from trainload_worker.frameworks.arrays.state import (
    Place,
    channels_last_axes,
    load_places,
    read_places,
)
from trainload_worker.protocol.spec import TrainSpec
from trainload_worker.training.safetensors_file import Tensor, Tensors
from trainload_worker.training.state import SLOTS, slot_name

_EPOCH_STRIDE = 1_000_003
"""Between the counters at which two epochs' dropout begins; more steps than an epoch has."""


class TensorFlowState:
    """The state of one model and its optimizer."""

    def __init__(self, spec: TrainSpec, model: Any, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._slot_names = SLOTS[spec.training.optimizer.name]
        self._generators = list(_seed_generators(model))
        axes = channels_last_axes(spec.graph)
        self._places = []
        # Keras hands the same variable out under several wrappers.
        slots = {id(v): kept for v, kept in zip(model.trainable_variables, optimizer.kept)}
        for layer in spec.graph.layers:
            for parameter, variable in _named_variables(model, layer.name):
                name = f"{layer.name}.{parameter}"
                turned = axes.get((layer.name, parameter))
                self._places.append(_place(name, variable.value, turned))
                for slot, kept in zip(self._slot_names, slots.get(id(variable), ())):
                    self._places.append(_place(slot_name(slot, name), kept, turned))

    def read(self) -> Tensors:
        """Copies in host memory."""
        return read_places(self._places)

    def load(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        """Assigns every value, and the powers that Adam corrects its bias by."""
        load_places(self._places, tensors)
        self._optimizer.count_from(steps)

    def begin_epoch(self, epoch: int) -> None:
        """Sets the counter of each dropout layer, whose seed is the model's own."""
        for generator in self._generators:
            seed = int(generator.state.numpy()[0])
            generator.state.assign([seed, epoch * _EPOCH_STRIDE])


def _place(name: str, variable: Any, axes: tuple[int, ...] | None) -> Place:
    return Place(name, tuple(variable.shape), variable.numpy, variable.assign, axes)


def _named_variables(model: Any, layer_name: str) -> Iterator[tuple[str, Any]]:
    """The variables of a layer by the names of a checkpoint."""
    layer = model.named.get(layer_name)
    if layer is None:
        return
    cells = getattr(layer, "recurrent_cells", None)
    if cells is not None:
        for number, cell in enumerate(cells):
            yield f"weight_ih_l{number}", cell.kernel
            yield f"weight_hh_l{number}", cell.recurrent_kernel
            yield f"bias_ih_l{number}", cell.bias
        return
    own = {"mean": "running_mean", "variance": "running_var"}
    for variable in [*layer.trainable_variables, *layer.non_trainable_variables]:
        name = variable.name
        if "seed_generator" not in name:
            yield own.get(name, name), variable


def _seed_generators(model: Any) -> Iterator[Any]:
    """The generators of dropout, in the order of the layers."""
    for layer in model.named.values():
        for part in (layer, getattr(layer, "_dropout", None)):
            generator = getattr(part, "seed_generator", None)
            if generator is not None:
                yield generator
