"""Builds a hybridizable Gluon block from a layer graph; trains nothing.

A layer's name is the prefix of its block, and so of all its operations and parameters.
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator

import mxnet
from mxnet.gluon.block import HybridBlock

from trainload_worker.errors import GraphError
from trainload_worker.frameworks.mxnet.kinds import BUILDERS, find_parameter
from trainload_worker.protocol.graph import GraphSpec, LayerSpec


class GraphBlock(HybridBlock):  # type: ignore[misc]  # mxnet is not typed here
    """The layers of a graph, run in topological order."""

    def __init__(self, graph: GraphSpec) -> None:
        super().__init__(prefix="")
        shapes = {layer.name: layer.output_shape for layer in graph.layers}
        self.named: dict[str, Any] = {}
        self._layer_inputs: list[tuple[str, tuple[str, ...]]] = []
        for layer in graph.layers:
            if layer.kind == "input":
                self._entry = layer.name
                continue
            block = _build_layer(layer, tuple(shapes[name] for name in layer.inputs))
            self.register_child(block, layer.name)
            self.named[layer.name] = block
            self._layer_inputs.append((layer.name, layer.inputs))
        self._exit = graph.output

    def hybrid_forward(self, F: Any, rows: Any) -> Any:  # noqa: N803, ARG002 - Gluon's name
        """The output layer's value for a batch of rows."""
        values = {self._entry: rows}
        for name, sources in self._layer_inputs:
            values[name] = self.named[name](*[values[source] for source in sources])
        return values[self._exit]

    def load(self, parameters: Iterable[tuple[str, Any]], context: Any) -> None:
        """Makes every parameter on the device; those named start with the values given."""
        # What is not named below: running figures, constants, and a bias that stays zero.
        self.initialize(mxnet.init.Zero(), ctx=context)
        for name, values in parameters:
            layer, _, parameter = name.rpartition(".")
            find_parameter(self.named[layer], parameter).set_data(
                mxnet.nd.array(values, ctx=context, dtype="float32")
            )

    def parameter_sizes(self) -> Iterator[tuple[str, list[int]]]:
        """Each layer with the number of values in its trained parameters."""
        for name, block in self.named.items():
            own = block.collect_params().values()
            yield name, [p.data().size for p in own if p.grad_req != "null"]


def _build_layer(layer: LayerSpec, inputs: Any) -> Any:
    if layer.kind not in BUILDERS:
        raise GraphError(f"layer {layer.name} is of kind {layer.kind!r}, unknown to mxnet here")
    try:
        return BUILDERS[layer.kind](
            f"{layer.name}_", layer.attributes, inputs, tuple(layer.output_shape)
        )
    except KeyError as error:
        raise GraphError(f"layer {layer.name} lacks the attribute {error}") from error
