"""Builds a Flax NNX module from a layer graph; trains nothing.

A layer's name is the name of its scope, so that every operation of the compiled program tells
which layer it is from.
"""

from __future__ import annotations

from typing import Any, Iterable

import jax
from flax import nnx

from trainload_worker.errors import GraphError
from trainload_worker.frameworks.jax.kinds import BUILDERS
from trainload_worker.frameworks.xla.layers import INPUT_SCOPE
from trainload_worker.protocol.graph import GraphSpec, LayerSpec
from trainload_worker.training.layer_parameters import group_parameters


class GraphModule(nnx.Module):  # type: ignore[misc]  # flax is not typed here
    """The layers of a graph, run in topological order; rows and results are in torch's layout."""

    def __init__(self, graph: GraphSpec, parameters: Iterable[tuple[str, Any]]) -> None:
        shapes = {layer.name: layer.output_shape for layer in graph.layers}
        own = group_parameters(parameters)
        built = {}
        for layer in graph.layers:
            if layer.kind != "input":
                inputs = tuple(shapes[name] for name in layer.inputs)
                built[layer.name] = _build_layer(layer, inputs)
                built[layer.name].load(own.get(layer.name, {}))
        self.layers = nnx.Dict(built)
        self._graph = graph
        self._image_in = any(
            layer.kind == "input" and len(layer.output_shape) == 3 for layer in graph.layers
        )
        self._image_out = len(shapes[graph.output]) == 3

    def __call__(self, rows: Any, train: bool, key: Any) -> Any:
        values = {}
        for number, layer in enumerate(self._graph.layers):
            if layer.kind == "input":
                with jax.named_scope(INPUT_SCOPE):
                    values[layer.name] = rows.transpose(0, 2, 3, 1) if self._image_in else rows
                continue
            with jax.named_scope(layer.name):
                own_key = jax.random.fold_in(key, number) if train else None
                inputs = [values[name] for name in layer.inputs]
                values[layer.name] = self.layers[layer.name](*inputs, train=train, key=own_key)
        result = values[self._graph.output]
        return result.transpose(0, 3, 1, 2) if self._image_out else result


def _build_layer(layer: LayerSpec, inputs: Any) -> Any:
    if layer.kind not in BUILDERS:
        raise GraphError(f"layer {layer.name} is of kind {layer.kind!r}, unknown to jax here")
    try:
        return BUILDERS[layer.kind](layer.attributes, inputs, layer.output_shape)
    except KeyError as error:
        raise GraphError(f"layer {layer.name} lacks the attribute {error}") from error
