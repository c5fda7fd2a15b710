"""A layer graph as both halves write it down: names, kinds, inputs, attributes, shapes."""

from dataclasses import dataclass, field
from typing import Any, Literal, Mapping, Tuple


@dataclass(frozen=True)
class LayerSpec:
    """One named layer; shapes leave the batch dimension out."""

    name: str
    kind: str
    inputs: Tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    output_shape: Tuple[int, ...] = ()
    """() while the graph is being written; checking infers it."""


@dataclass(frozen=True)
class GraphSpec:
    """Layers in an order in which they can be computed."""

    name: str
    layers: Tuple[LayerSpec, ...]
    output: str
    format: Literal[1] = 1
