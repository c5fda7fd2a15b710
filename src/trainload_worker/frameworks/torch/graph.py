"""Builds a torch module from a layer graph; trains nothing.

A layer's name is the path of its sub-module, so that "hidden1.linear" has the parameter
"hidden1.linear.weight" just as if the module had been written by hand.
"""

from __future__ import annotations

from typing import Any, Mapping

from torch import nn

from trainload_worker.errors import GraphError
from trainload_worker.frameworks.torch.kinds import BUILDERS
from trainload_worker.protocol.graph import GraphSpec, LayerSpec


class GraphModule(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """The layers of a graph in one module tree, run in topological order."""

    def __init__(self, graph: GraphSpec) -> None:
        super().__init__()
        slots = {layer.name: slot for slot, layer in enumerate(graph.layers)}
        shapes = {layer.name: layer.output_shape for layer in graph.layers}
        last_use = _last_uses(graph)
        # Module, slots it reads, slot it fills, slots nobody reads after it.
        self._calls: list[tuple[Any, list[int], int, list[int]]] = []
        for layer in graph.layers:
            if layer.kind == "input":
                self._entry = slots[layer.name]
                continue
            module = _build_layer(layer, shapes)
            _attach(self, layer.name, module)
            sources = [slots[name] for name in layer.inputs]
            # A value is let go after its last reader, as in a hand-written forward pass.
            released = [slots[name] for name in layer.inputs if last_use[name] == layer.name]
            self._calls.append((module, sources, slots[layer.name], released))
        self._exit = slots[graph.output]
        self._slot_count = len(slots)

    def forward(self, rows: Any) -> Any:
        """The output layer's value for a batch of rows."""
        values = [None] * self._slot_count
        values[self._entry] = rows
        for module, sources, target, released in self._calls:
            values[target] = module(*[values[slot] for slot in sources])
            for slot in released:
                values[slot] = None
        return values[self._exit]


def count_parameters(module: Any, layer: LayerSpec) -> int:
    """How many trained parameters belong to that layer itself; 0 for the input."""
    if layer.kind == "input":
        return 0
    own = module.get_submodule(layer.name).parameters(recurse=False)
    return sum(int(parameter.numel()) for parameter in own if parameter.requires_grad)


def _last_uses(graph: GraphSpec) -> dict[str, str]:
    """The last layer that reads each layer's value; the graph's output is kept for the caller."""
    last = {name: layer.name for layer in graph.layers for name in layer.inputs}
    last[graph.output] = ""
    return last


def _build_layer(layer: LayerSpec, shapes: Mapping[str, tuple[int, ...]]) -> Any:
    if layer.kind not in BUILDERS:
        raise GraphError(f"layer {layer.name} is of kind {layer.kind!r}, unknown to torch here")
    if not layer.inputs or any(name not in shapes for name in layer.inputs):
        raise GraphError(f"layer {layer.name} needs layers of the graph as its inputs")
    try:
        return BUILDERS[layer.kind](layer.attributes, tuple(shapes[name] for name in layer.inputs))
    except KeyError as error:
        raise GraphError(f"layer {layer.name} lacks the attribute {error}") from error


def _attach(root: Any, name: str, module: Any) -> None:
    *path, leaf = name.split(".")
    parent = root
    try:
        for part in path:
            if part not in dict(parent.named_children()):
                parent.add_module(part, nn.Module())
            parent = parent.get_submodule(part)
        if leaf in dict(parent.named_children()):
            # torch would replace the one that stands there, and its parameters, in silence.
            raise KeyError(f"{leaf!r} is taken")
        parent.add_module(leaf, module)
    except KeyError as error:
        raise GraphError(f"layer {name} cannot be named so in torch: {error.args[0]}") from error
