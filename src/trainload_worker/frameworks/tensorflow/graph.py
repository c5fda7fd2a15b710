"""Builds a Keras model from a layer graph; trains nothing.

A layer's name is that of its Keras layer, and so the scope of all its operations.
"""

from __future__ import annotations

from typing import Any, Iterable

import keras
import tensorflow as tf

from trainload_worker.errors import GraphError
from trainload_worker.frameworks.tensorflow.kinds import BUILDERS
from trainload_worker.protocol.graph import GraphSpec
from trainload_worker.training.layer_parameters import group_parameters

_TRAINS = ("batch_norm", "dropout", "lstm", "self_attention")
"""Kinds that do something else in training."""


class GraphModel(keras.Model):  # type: ignore[misc]  # keras is not typed here
    """The layers of a graph, run in topological order; rows and results are in torch's layout."""

    def __init__(self, graph: GraphSpec, parameters: Iterable[tuple[str, Any]]) -> None:
        super().__init__(name=graph.name)
        shapes = {layer.name: layer.output_shape for layer in graph.layers}
        own = group_parameters(parameters)
        self._calls: Any = []
        self.named: Any = {}
        self.scopes: Any = {}
        """The layer of each scope of the function traced last, such as `lenet5_1/conv1_1`."""
        for layer in graph.layers:
            if layer.kind == "input":
                self._entry, self._image_in = layer.name, len(layer.output_shape) == 3
                continue
            if layer.kind not in BUILDERS:
                raise GraphError(
                    f"layer {layer.name} is of kind {layer.kind!r}, unknown to tensorflow here"
                )
            inputs = tuple(shapes[name] for name in layer.inputs)
            try:
                built = BUILDERS[layer.kind](
                    layer.name,
                    layer.attributes,
                    inputs,
                    layer.output_shape,
                    own.get(layer.name, {}),
                )
            except KeyError as error:
                raise GraphError(f"layer {layer.name} lacks the attribute {error}") from error
            self.named[layer.name] = built
            self._calls.append((layer.name, layer.inputs, layer.kind in _TRAINS))
        self._exit, self._image_out = graph.output, len(shapes[graph.output]) == 3

    def call(self, rows: Any, training: bool = False) -> Any:
        """The output layer's value for a batch of rows."""
        self.scopes.clear()
        values = {self._entry: tf.transpose(rows, [0, 2, 3, 1]) if self._image_in else rows}
        for name, sources, trains in self._calls:
            extra = {"training": training} if trains else {}
            values[name] = self.named[name](*[values[source] for source in sources], **extra)
            scope = find_scope(values[name])
            if scope is not None:
                # A layer that only passes on gives what is an earlier one's.
                self.scopes.setdefault(scope, name)
        result = values[self._exit]
        return tf.transpose(result, [0, 3, 1, 2]) if self._image_out else result


def find_scope(value: Any) -> str | None:
    """The scope of the model and, inside it, of the layer that gave a value; None outside."""
    operation = getattr(value, "op", None)
    parts = [] if operation is None else operation.name.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else None
