"""The kinds a layer can have: their attributes, and how shapes and parameters follow.

Shapes leave out the batch dimension. Framework-free; building modules is the worker's duty.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trainload.errors import GraphError

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """One attribute of a kind: its type, default (None: required) and bounds."""

    type: type
    default: Any = None
    low: float | None = None
    high: float | None = None
    below: float | None = None


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What is common to all layers of one kind."""

    attributes: Mapping[str, Attribute]
    inputs: int
    infer: Callable[[Mapping[str, Any], tuple[Shape, ...]], Shape]
    parameter_shapes: Callable[[Mapping[str, Any], tuple[Shape, ...]], dict[str, Shape]]


def _no_parameters(_attributes: Mapping[str, Any], _inputs: tuple[Shape, ...]) -> dict[str, Shape]:
    return {}


def _same_shape(_attributes: Mapping[str, Any], inputs: tuple[Shape, ...]) -> Shape:
    return inputs[0]


def _input_shape(attributes: Mapping[str, Any], _inputs: tuple[Shape, ...]) -> Shape:
    shape = tuple(attributes["shape"])
    if not shape or any(not isinstance(d, int) or isinstance(d, bool) or d < 1 for d in shape):
        raise GraphError(f"shape {list(shape)} must hold whole numbers of at least 1")
    return shape


def _linear_shape(attributes: Mapping[str, Any], inputs: tuple[Shape, ...]) -> Shape:
    if len(inputs[0]) != 1:
        raise GraphError(f"needs a flat input, got shape {list(inputs[0])}; put a flatten before")
    return (attributes["units"],)


def _linear_parameters(
    attributes: Mapping[str, Any], inputs: tuple[Shape, ...]
) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {"weight": (attributes["units"], inputs[0][0])}
    if attributes["bias"]:
        shapes["bias"] = (attributes["units"],)
    return shapes


def _flat_shape(_attributes: Mapping[str, Any], inputs: tuple[Shape, ...]) -> Shape:
    return (math.prod(inputs[0]),)


def _elementwise(**attributes: Attribute) -> Kind:
    return Kind(attributes=attributes, inputs=1, infer=_same_shape, parameter_shapes=_no_parameters)


KINDS: dict[str, Kind] = {
    "input": Kind(
        attributes={"shape": Attribute(type=list)},
        inputs=0,
        infer=_input_shape,
        parameter_shapes=_no_parameters,
    ),
    "linear": Kind(
        attributes={
            "units": Attribute(type=int, low=1, high=10**7),
            "bias": Attribute(type=bool, default=True),
        },
        inputs=1,
        infer=_linear_shape,
        parameter_shapes=_linear_parameters,
    ),
    "flatten": Kind(attributes={}, inputs=1, infer=_flat_shape, parameter_shapes=_no_parameters),
    "dropout": _elementwise(rate=Attribute(type=float, default=0.5, low=0, below=1)),
    "relu": _elementwise(),
    # Slope 0.01 is torch's default and the value of Maas, Hannun and Ng 2013.
    "leaky_relu": _elementwise(negative_slope=Attribute(type=float, default=0.01, low=0, high=1)),
    "tanh": _elementwise(),
    "sigmoid": _elementwise(),
    "silu": _elementwise(),
}
