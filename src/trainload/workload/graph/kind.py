"""What a kind of layer is: checked attributes, and how shapes, parameters and FLOPs follow.

Shapes leave out the batch dimension. A multiplication with the addition that follows it is two
FLOPs. Framework-free; building modules is the worker's duty.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trainload.checked import suggest
from trainload.errors import GraphError

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]
Attributes = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """One attribute of a kind: its type, default (None: required) and bounds."""

    type: type
    default: Any = None
    low: float | None = None
    high: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()
    pair: bool = False
    """A height and a width, kept as a list; one number stands for both."""

    def check(self, name: str, value: Any) -> Any:
        """The value as it is kept; GraphError names the attribute and the bound it breaks."""
        if not self.pair:
            return self._check_one(name, value)
        both = list(value) if isinstance(value, list | tuple) else [value, value]
        if len(both) != 2:
            raise GraphError(f"attribute {name!r} takes a height and a width, got {value!r}")
        return [self._check_one(name, one) for one in both]

    def _check_one(self, name: str, value: Any) -> Any:
        if self.type is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if self.type is list and isinstance(value, list | tuple):
            value = list(value)
        wrong_bool = isinstance(value, bool) and self.type is not bool
        if not isinstance(value, self.type) or wrong_bool:
            raise GraphError(f"attribute {name!r} must be {self.type.__name__}, got {value!r}")
        if self.choices and value not in self.choices:
            raise GraphError(
                f"attribute {name!r} must be {' or '.join(self.choices)}, got {value!r}"
            )
        if isinstance(value, int | float) and not isinstance(value, bool):
            self._check_bounds(name, value)
        return value

    def _check_bounds(self, name: str, value: float) -> None:
        if not math.isfinite(value):
            raise GraphError(f"attribute {name!r} must be finite, got {value}")
        if self.low is not None and value < self.low:
            raise GraphError(f"attribute {name!r} must be at least {self.low:g}, got {value}")
        if self.high is not None and value > self.high:
            raise GraphError(f"attribute {name!r} must be at most {self.high:g}, got {value}")
        if self.below is not None and value >= self.below:
            raise GraphError(f"attribute {name!r} must be below {self.below:g}, got {value}")


def no_parameters(_attributes: Attributes, _inputs: Shapes) -> dict[str, Shape]:
    """Of a layer that trains nothing."""
    return {}


def no_flop(_attributes: Attributes, _inputs: Shapes, _output: Shape) -> int:
    """Of a layer that multiplies no matrices."""
    return 0


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What is common to all layers of one kind."""

    attributes: Mapping[str, Attribute]
    infer: Callable[[Attributes, Shapes], Shape]
    """Output shape; GraphError where the inputs do not suit."""
    inputs: int = 1
    joins: bool = False
    """Takes any larger number of inputs as well."""
    tokens: bool = False
    """Reads whole numbers, which no other kind does."""
    parameter_shapes: Callable[[Attributes, Shapes], dict[str, Shape]] = no_parameters
    """Trained values by name; the names are torch's, and dots are never part of them."""
    flop: Callable[[Attributes, Shapes, Shape], int] = no_flop
    """FLOPs of the matrix products and convolutions of one example's forward pass.

    Biases, norms, activations, pooling and sums are left out, as in torch's FlopCounterMode, so
    that the figures can be compared.
    """

    def check_attributes(self, given: Attributes) -> dict[str, Any]:
        """All attributes, the default where none is given; GraphError names the wrong one."""
        for name in given:
            if name not in self.attributes:
                raise GraphError(f"unknown attribute {name!r}{suggest(str(name), self.attributes)}")
        checked: dict[str, Any] = {}
        for name, attribute in self.attributes.items():
            value = given.get(name, attribute.default)
            if value is None:
                raise GraphError(f"attribute {name!r} is missing")
            if name in given:
                checked[name] = attribute.check(name, value)
            else:  # ours, and right
                checked[name] = [value, value] if attribute.pair else value
        return checked


def same_shape(_attributes: Attributes, inputs: Shapes) -> Shape:
    """Of a layer that changes values, not shapes."""
    return inputs[0]


def elementwise(**attributes: Attribute) -> Kind:
    """A kind that keeps the shape and trains nothing."""
    return Kind(attributes=attributes, infer=same_shape)


def dense_parameters(units: int, width: int, bias: bool) -> dict[str, Shape]:
    """Of one affine map from `width` to `units` values."""
    shapes: dict[str, Shape] = {"weight": (units, width)}
    if bias:
        shapes["bias"] = (units,)
    return shapes


def render_shape(shape: Shape) -> str:
    """A shape for people: 3×224×224."""
    return "×".join(map(str, shape))
