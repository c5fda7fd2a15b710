"""The state of a training that never was: zeros of the right names; imports no framework."""

from __future__ import annotations

import math
from typing import Callable, Mapping, Sequence

from trainload_worker.protocol.spec import TrainSpec
from trainload_worker.training.safetensors_file import Tensor, Tensors
from trainload_worker.training.state import find_tensor


class FakeState:
    """Zeros for the weights of linear layers, and the number of steps."""

    def __init__(self, spec: TrainSpec, count_from: Callable[[int], None]) -> None:
        self._count_from = count_from
        shapes = {layer.name: layer.output_shape for layer in spec.graph.layers}
        self._shapes: dict[str, Sequence[int]] = {}
        for layer in spec.graph.layers:
            if layer.kind == "linear":
                units = int(layer.attributes["units"])
                self._shapes[f"{layer.name}.weight"] = (units, shapes[layer.inputs[0]][-1])
                if layer.attributes.get("bias", True):
                    self._shapes[f"{layer.name}.bias"] = (units,)

    def read(self) -> Tensors:
        """Nothing but zeros."""
        return {
            name: Tensor(shape=tuple(shape), data=bytes(4 * math.prod(shape)))
            for name, shape in self._shapes.items()
        }

    def load(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        """Checks the names and shapes."""
        for name, shape in self._shapes.items():
            find_tensor(tensors, name, shape)
        self._count_from(steps)

    def begin_epoch(self, epoch: int) -> None:
        """Nothing is drawn."""
