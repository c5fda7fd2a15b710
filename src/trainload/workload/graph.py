"""The layer graph: an architecture written once, framework-free.

Names, kinds, inputs and attributes go in; shapes and parameters are inferred and checked. Builds
no module and reads no file.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainload.errors import GraphError
from trainload.workload.checked import suggest
from trainload.workload.kinds import KINDS, Attribute, Shape

GRAPH_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class LayerSpec:
    """One layer as it is written down, before anything is inferred."""

    name: str
    kind: str
    inputs: tuple[str, ...] = ()
    attributes: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer of a checked graph."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    output_shape: Shape
    parameter_shapes: Mapping[str, Shape]

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
    def input_shape(self) -> Shape:
        """Shape of one example, without the batch dimension."""
        return next(layer.output_shape for layer in self.layers if layer.kind == "input")

    @property
    def output_shape(self) -> Shape:
        """Shape of the output for one example."""
        return next(layer.output_shape for layer in self.layers if layer.name == self.output)

    def to_json(self) -> dict[str, Any]:
        """A JSON-able copy that `graph_from_json` reads back to an equal graph."""
        return {
            "format": GRAPH_FORMAT,
            "name": self.name,
            "layers": [
                {
                    "name": layer.name,
                    "kind": layer.kind,
                    "inputs": list(layer.inputs),
                    "attributes": dict(layer.attributes),
                    "output_shape": list(layer.output_shape),
                }
                for layer in self.layers
            ],
            "output": self.output,
        }


def build_graph(name: str, specs: Sequence[LayerSpec], output: str | None = None) -> LayerGraph:
    """Infer and check every layer; GraphError names the layer that cannot be built and why.

    The output is the last layer unless named.
    """
    if not specs:
        raise GraphError(f"graph {name!r} has no layers")
    layers: dict[str, Layer] = {}
    for spec in specs:
        try:
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
    if not isinstance(document, Mapping):
        raise GraphError("a graph must be a JSON object")
    if document.get("format") != GRAPH_FORMAT:
        raise GraphError(
            f"graph format {document.get('format')!r} is not known; "
            f"this version reads {GRAPH_FORMAT}"
        )
    name, rows, output = (document.get(key) for key in ("name", "layers", "output"))
    if not isinstance(name, str) or not isinstance(rows, list) or not isinstance(output, str):
        raise GraphError("a graph needs a 'name' and an 'output' (texts) and 'layers' (a list)")
    specs = [_spec_from_json(row, position) for position, row in enumerate(rows)]
    graph = build_graph(name, specs, output)
    for layer, row in zip(graph.layers, rows, strict=True):
        stated = row.get("output_shape")
        if stated is not None and stated != list(layer.output_shape):
            raise GraphError(
                f"layer {layer.name!r}: states output_shape {stated}, "
                f"but its inputs give {list(layer.output_shape)}"
            )
    return graph


def _spec_from_json(row: Any, position: int) -> LayerSpec:
    if not isinstance(row, Mapping):
        raise GraphError(f"layer {position}: must be an object")
    name, kind = row.get("name"), row.get("kind")
    inputs, attributes = row.get("inputs", []), row.get("attributes", {})
    if not isinstance(name, str) or not isinstance(kind, str):
        raise GraphError(f"layer {position}: needs 'name' and 'kind' as texts")
    if not isinstance(inputs, list) or not all(isinstance(i, str) for i in inputs):
        raise GraphError(f"layer {name!r}: 'inputs' must be a list of layer names")
    if not isinstance(attributes, Mapping):
        raise GraphError(f"layer {name!r}: 'attributes' must be an object")
    return LayerSpec(name=name, kind=kind, inputs=tuple(inputs), attributes=attributes)


def _infer_layer(spec: LayerSpec, before: Mapping[str, Layer]) -> Layer:
    _check_name(spec.name, before)
    kind = KINDS.get(spec.kind)
    if kind is None:
        raise GraphError(f"unknown kind{suggest(spec.kind, KINDS)}")
    if len(spec.inputs) != kind.inputs:
        raise GraphError(f"takes {kind.inputs} input(s), got {len(spec.inputs)}")
    for source in spec.inputs:
        if source not in before:
            raise GraphError(f"input {source!r} is no earlier layer{suggest(source, before)}")
    attributes = _check_attributes(spec.attributes, kind.attributes)
    shapes = tuple(before[source].output_shape for source in spec.inputs)
    return Layer(
        name=spec.name,
        kind=spec.kind,
        inputs=spec.inputs,
        attributes=attributes,
        output_shape=kind.infer(attributes, shapes),
        parameter_shapes=kind.parameter_shapes(attributes, shapes),
    )


def _check_name(name: str, before: Mapping[str, Layer]) -> None:
    if name in before:
        raise GraphError("the name is taken by an earlier layer")
    if not name or any(not part.isidentifier() for part in name.split(".")):
        raise GraphError("a name is made of identifiers joined by dots, such as 'hidden1.linear'")
    # Names become a module tree: a layer cannot also be the parent of another.
    for other in before:
        if other.startswith(name + ".") or name.startswith(other + "."):
            raise GraphError(f"the name clashes with layer {other!r}: one contains the other")


def _check_attributes(given: Mapping[str, Any], known: Mapping[str, Attribute]) -> dict[str, Any]:
    for name in given:
        if name not in known:
            raise GraphError(f"unknown attribute {name!r}{suggest(str(name), known)}")
    checked: dict[str, Any] = {}
    for name, attribute in known.items():
        value = given.get(name, attribute.default)
        if value is None:
            raise GraphError(f"attribute {name!r} is missing")
        checked[name] = _check_attribute(name, attribute, value)
    return checked


def _check_attribute(name: str, attribute: Attribute, value: Any) -> Any:
    if attribute.type is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if attribute.type is list and isinstance(value, tuple):
        value = list(value)
    wrong_bool = isinstance(value, bool) and attribute.type is not bool
    if not isinstance(value, attribute.type) or wrong_bool:
        raise GraphError(f"attribute {name!r} must be {attribute.type.__name__}, got {value!r}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise GraphError(f"attribute {name!r} must be finite, got {value}")
        if attribute.low is not None and value < attribute.low:
            raise GraphError(f"attribute {name!r} must be at least {attribute.low:g}, got {value}")
        if attribute.high is not None and value > attribute.high:
            raise GraphError(f"attribute {name!r} must be at most {attribute.high:g}, got {value}")
        if attribute.below is not None and value >= attribute.below:
            raise GraphError(f"attribute {name!r} must be below {attribute.below:g}, got {value}")
    return value


def _refuse_unused(layers: Mapping[str, Layer], output: str) -> None:
    used = {output}
    for layer in reversed(list(layers.values())):
        if layer.name in used:
            used.update(layer.inputs)
    for name in layers:
        if name not in used:
            raise GraphError(f"layer {name!r}: nothing leads from it to the output {output!r}")
