"""The layer graph: an architecture written once, framework-free.

Names, kinds, inputs and attributes go in; shapes, parameters and FLOPs are inferred and checked.
Builds no module and reads no file.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainload.checked import build_checked, suggest, to_json
from trainload.errors import GraphError, WorkloadError
from trainload.workload.graph.kind import Kind, Shape
from trainload.workload.graph.kinds import KINDS
from trainload_worker.protocol.graph import GraphSpec, LayerSpec


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer of a checked graph."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    output_shape: Shape
    parameter_shapes: Mapping[str, Shape]
    flop_forward: int
    """FLOPs of one example's forward pass: matrix products and convolutions, see `Kind.flop`."""

    @property
    def parameters(self) -> int:
        """Number of trained values in this layer."""
        return sum(math.prod(shape) for shape in self.parameter_shapes.values())


@dataclass(frozen=True, kw_only=True)
class LayerGraph:
    """A checked architecture: layers in an order in which they can be computed."""

    name: str
    layers: tuple[Layer, ...]
    output: str

    @property
    def parameters(self) -> int:
        """Number of trained values in the whole graph."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def flop_forward(self) -> int:
        """FLOPs of one example's forward pass, a multiply-add counted as two.

        Matrix products, convolutions and attention alone, as torch's FlopCounterMode counts.
        """
        return sum(layer.flop_forward for layer in self.layers)

    @property
    def input_shape(self) -> Shape:
        """Shape of one example, without the batch dimension."""
        return next(layer.output_shape for layer in self.layers if layer.kind == "input")

    @property
    def output_shape(self) -> Shape:
        """Shape of the output for one example."""
        return next(layer.output_shape for layer in self.layers if layer.name == self.output)

    @property
    def sha256(self) -> str:
        """What tells this graph from every other: of its JSON form, names of keys in order."""
        text = json.dumps(to_json(self.to_spec()), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_spec(self) -> GraphSpec:
        """The graph as it is written down; `graph_from_spec` gives an equal graph back."""
        layers = tuple(
            LayerSpec(
                name=layer.name,
                kind=layer.kind,
                inputs=layer.inputs,
                attributes=layer.attributes,
                output_shape=layer.output_shape,
            )
            for layer in self.layers
        )
        return GraphSpec(name=self.name, layers=layers, output=self.output)


def build_graph(name: str, specs: Sequence[LayerSpec], output: str | None = None) -> LayerGraph:
    """Infer and check every layer; GraphError names the layer that cannot be built and why.

    The output is the last layer unless named.
    """
    if not specs:
        raise GraphError(f"graph {name!r} has no layers")
    layers: dict[str, Layer] = {}
    parents: set[str] = set()
    for spec in specs:
        try:
            _check_name(spec.name, layers, parents)
            layers[spec.name] = _infer_layer(spec, layers)
        except GraphError as error:
            raise GraphError(f"layer {spec.name!r} ({spec.kind}): {error}") from None
    inputs = [layer.name for layer in layers.values() if layer.kind == "input"]
    if len(inputs) != 1:
        raise GraphError(f"graph {name!r} needs exactly one input layer, it has {len(inputs)}")
    output = output if output is not None else specs[-1].name
    if output not in layers:
        raise GraphError(f"graph {name!r}: output {output!r} is no layer{suggest(output, layers)}")
    _refuse_unused(layers, output)
    return LayerGraph(name=name, layers=tuple(layers.values()), output=output)


def graph_from_json(document: Any) -> LayerGraph:
    """The graph a JSON document describes; GraphError says what is wrong with it."""
    try:
        return graph_from_spec(build_checked(GraphSpec, document, "graph"))
    except GraphError:
        raise
    except WorkloadError as error:
        raise GraphError(str(error)) from None


def graph_from_spec(spec: GraphSpec) -> LayerGraph:
    """The checked graph; GraphError where it cannot be built or states another shape."""
    graph = build_graph(spec.name, spec.layers, spec.output)
    for layer, written in zip(graph.layers, spec.layers, strict=True):
        if written.output_shape not in ((), layer.output_shape):
            raise GraphError(
                f"layer {layer.name!r}: states output_shape {list(written.output_shape)}, "
                f"but its inputs give {list(layer.output_shape)}"
            )
    return graph


def _infer_layer(spec: LayerSpec, before: Mapping[str, Layer]) -> Layer:
    kind = KINDS.get(spec.kind)
    if kind is None:
        raise GraphError(f"unknown kind{suggest(spec.kind, KINDS)}")
    _check_inputs(spec, kind, before)
    attributes = kind.check_attributes(spec.attributes)
    shapes = tuple(before[source].output_shape for source in spec.inputs)
    output_shape = kind.infer(attributes, shapes)
    return Layer(
        name=spec.name,
        kind=spec.kind,
        inputs=spec.inputs,
        attributes=attributes,
        output_shape=output_shape,
        parameter_shapes=kind.parameter_shapes(attributes, shapes),
        flop_forward=kind.flop(attributes, shapes, output_shape),
    )


def _check_name(name: str, before: Mapping[str, Layer], parents: set[str]) -> None:
    """Refuse a name that cannot stand in a module tree; `parents` grows by those of this one."""
    if name in before:
        raise GraphError("the name is taken by an earlier layer")
    parts = name.split(".")
    if not all(map(str.isidentifier, parts)):
        raise GraphError("a name is made of identifiers joined by dots, such as 'hidden1.linear'")
    # Names become a module tree: a layer cannot also be the parent of another.
    other = None
    if name in parents:
        other = next(layer for layer in before if layer.startswith(name + "."))
    elif name.rpartition(".")[0] not in parents:
        above = [".".join(parts[:depth]) for depth in range(1, len(parts))]
        other = next((parent for parent in above if parent in before), None)
        parents.update(above)
    if other is not None:
        raise GraphError(f"the name clashes with layer {other!r}: one contains the other")


def _check_inputs(spec: LayerSpec, kind: Kind, before: Mapping[str, Layer]) -> None:
    found = len(spec.inputs)
    if found < kind.inputs or (found > kind.inputs and not kind.joins):
        least = "at least " if kind.joins else ""
        raise GraphError(f"takes {least}{kind.inputs} input(s), got {found}")
    for source in spec.inputs:
        if source not in before:
            raise GraphError(f"input {source!r} is no earlier layer{suggest(source, before)}")
        tokens = before[source].attributes.get("dtype") == "int64"
        if tokens and not kind.tokens:
            raise GraphError(f"cannot read the tokens of {source!r}; put an embedding before")
        if kind.tokens and not tokens:
            raise GraphError(f"reads tokens, but {source!r} gives numbers; its dtype must be int64")


def _refuse_unused(layers: Mapping[str, Layer], output: str) -> None:
    used = {output}
    for layer in reversed(list(layers.values())):
        if layer.name in used:
            used.update(layer.inputs)
    for name in layers:
        if name not in used:
            raise GraphError(f"layer {name!r}: nothing leads from it to the output {output!r}")
