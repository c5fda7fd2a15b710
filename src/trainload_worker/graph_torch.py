"""Builds a torch module from a layer graph; trains nothing.

A layer's name is the path of its sub-module, so that "hidden1.linear" has the parameter
"hidden1.linear.weight" just as if the module had been written by hand.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Tuple

from torch import nn

from trainload_worker.errors import GraphError
from trainload_worker.spec import GraphSpec, LayerSpec

_Attributes = Mapping[str, Any]
_Shape = Tuple[int, ...]


def _build_linear(attributes: _Attributes, shape: _Shape) -> Any:
    return nn.Linear(shape[-1], attributes["units"], bias=attributes.get("bias", True))


_BUILDERS: Mapping[str, Callable[[_Attributes, _Shape], Any]] = {
    "linear": _build_linear,
    "relu": lambda _attributes, _shape: nn.ReLU(),
    "leaky_relu": lambda attributes, _shape: nn.LeakyReLU(attributes.get("negative_slope", 0.01)),
    "tanh": lambda _attributes, _shape: nn.Tanh(),
    "sigmoid": lambda _attributes, _shape: nn.Sigmoid(),
    "silu": lambda _attributes, _shape: nn.SiLU(),
    "dropout": lambda attributes, _shape: nn.Dropout(attributes["rate"]),
    "flatten": lambda _attributes, _shape: nn.Flatten(),
}


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
    """How many parameters belong to that layer itself; 0 for the input."""
    if layer.kind == "input":
        return 0
    own = module.get_submodule(layer.name).parameters(recurse=False)
    return sum(int(parameter.numel()) for parameter in own)


def _last_uses(graph: GraphSpec) -> dict[str, str]:
    """The last layer that reads each layer's value; the graph's output is kept for the caller."""
    last = {name: layer.name for layer in graph.layers for name in layer.inputs}
    last[graph.output] = ""
    return last


def _build_layer(layer: LayerSpec, shapes: Mapping[str, _Shape]) -> Any:
    if layer.kind not in _BUILDERS:
        raise GraphError(f"layer {layer.name} is of kind {layer.kind!r}, unknown to torch here")
    if len(layer.inputs) != 1 or layer.inputs[0] not in shapes:
        raise GraphError(f"layer {layer.name} needs one layer of the graph as its input")
    try:
        return _BUILDERS[layer.kind](layer.attributes, shapes[layer.inputs[0]])
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
