"""Reads and sets the parameters of a Gluon block and what its trainer keeps of them."""

from __future__ import annotations

from typing import Any, Mapping

import mxnet
from mxnet import nd

from trainload_worker.frameworks.arrays.state import from_tensor, to_tensor
from trainload_worker.frameworks.mxnet.kinds import find_parameter
from trainload_worker.protocol.spec import TrainSpec
from trainload_worker.training.initial_weights import parameter_shapes
from trainload_worker.training.safetensors_file import Tensor, Tensors
from trainload_worker.training.state import RUNNING, SLOTS, epoch_seed, slot_name


class MxnetState:
    """The state of one block and its trainer."""

    def __init__(self, spec: TrainSpec, model: Any, trainer: Any) -> None:
        self._trainer = trainer
        optimizer = spec.training.optimizer
        self._slots = SLOTS[optimizer.name]
        # Its momentum holds the learning rate and is counted downwards: torch's does neither.
        self._scale = -1.0 / optimizer.learning_rate if optimizer.name == "sgd" else 1.0
        self._momentum = optimizer.name != "sgd" or bool(optimizer.momentum)
        self._seed = spec.seeds.weights
        self._weights = {}
        for layer, shapes in parameter_shapes(spec.graph).items():
            for name in shapes:
                self._weights[f"{layer}.{name}"] = find_parameter(model.named[layer], name)
        self._running = {
            f"{layer.name}.{name}": getattr(model.named[layer.name], name)
            for layer in spec.graph.layers
            if layer.kind == "batch_norm"
            for name in RUNNING
        }

    def read(self) -> Tensors:
        """Copies in host memory; waits for the device."""
        tensors = {
            name: to_tensor(parameter.data().asnumpy(), None)
            for name, parameter in {**self._weights, **self._running}.items()
        }
        # Gluon itself would only pickle them.
        kept = self._trainer._updaters[0].states
        places = _places(self._trainer)
        for name, parameter in self._weights.items():
            for slot, values in zip(self._slots, _listed(kept.get(places[parameter.name]))):
                scaled = values.asnumpy() * self._scale
                tensors[slot_name(slot, name)] = to_tensor(scaled, None)
        return tensors

    def load(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        """Sets every parameter, and makes the trainer's own figures."""
        for name, parameter in {**self._weights, **self._running}.items():
            values = from_tensor(tensors, name, parameter.shape, None)
            parameter.set_data(nd.array(values, dtype="float32"))
        updater = self._trainer._updaters[0]
        updater.optimizer.begin_num_update = updater.optimizer.num_update = steps
        places = _places(self._trainer)
        for name, parameter in self._weights.items():
            kept = self._load_slots(tensors, name, parameter)
            if kept is not None:
                updater.states[places[parameter.name]] = kept
                updater.states_synced[places[parameter.name]] = True

    def begin_epoch(self, epoch: int) -> None:
        """Seeds dropout; the first epoch goes on from the seed that the model was built with."""
        if epoch:
            mxnet.random.seed(epoch_seed(self._seed, epoch))

    def _load_slots(self, tensors: Mapping[str, Tensor], name: str, parameter: Any) -> Any:
        """What the optimizer keeps of a parameter, in its own form; None where it kept nothing."""
        if not self._momentum:
            return None
        found = [
            from_tensor(tensors, slot_name(slot, name), parameter.shape, None)
            for slot in self._slots
        ]
        if any(values is None for values in found):
            return None
        context = parameter.list_ctx()[0]
        kept = [nd.array(values / self._scale, context, dtype="float32") for values in found]
        return kept[0] if self._scale != 1.0 else kept


def _places(trainer: Any) -> dict[str, int]:
    """Where the trainer keeps each parameter."""
    return {parameter.name: place for place, parameter in enumerate(trainer._params)}


def _listed(kept: Any) -> list[Any]:
    if kept is None:
        return []
    return list(kept) if isinstance(kept, (list, tuple)) else [kept]
