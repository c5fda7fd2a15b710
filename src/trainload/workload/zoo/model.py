"""What a model of the zoo is: a graph by its options, and the paper it is from; knows no model."""

import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trainload.workload.graph.layers import LayerGraph

Examples = Literal["features", "images", "tokens", "sequences"]

_INPUT_OPTIONS: Mapping[Examples, tuple[str, ...]] = {
    "features": ("inputs",),
    "images": ("image_channels", "image_height", "image_width"),
    "tokens": ("steps",),
    "sequences": ("steps", "inputs"),
}


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model: the function that builds its graph, and the paper it is from."""

    build: Callable[[Any], LayerGraph]
    """Takes `options`, whose annotation is the type of the model's options."""
    examples: Examples
    """What one example is: decides which data the model takes."""
    source: str
    """Authors and title of the paper."""
    year: int
    family: bool = False
    """Whether it is no published network but a family for sweeps, listed after those."""

    @property
    def options(self) -> type[Any]:
        """The type of its options."""
        found: type[Any] = typing.get_type_hints(self.build)["options"]
        return found

    @property
    def input_options(self) -> tuple[str, ...]:
        """Options that make up the input's shape, in its order."""
        return _INPUT_OPTIONS[self.examples]
