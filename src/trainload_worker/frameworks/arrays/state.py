"""Turns arrays of frameworks that bring NumPy into a checkpoint's tensors and back; knows none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence

import numpy

from trainload_worker.protocol.graph import GraphSpec
from trainload_worker.training.safetensors_file import Tensor, Tensors
from trainload_worker.training.state import find_tensor


@dataclass(frozen=True)
class Place:
    """One array of a framework, in the framework's own layout."""

    name: str
    shape: tuple[int, ...]
    read: Callable[[], Any]
    write: Callable[[Any], Any]
    axes: tuple[int, ...] | None = None
    """How torch's dimensions are ordered here; None where they stand as torch has them."""


def read_places(places: Sequence[Place]) -> Tensors:
    """All arrays in torch's layout."""
    return {place.name: to_tensor(place.read(), place.axes) for place in places}


def load_places(places: Sequence[Place], tensors: Mapping[str, Tensor]) -> None:
    """Sets every array whose tensor is there; CheckpointError where a weight's is not."""
    for place in places:
        values = from_tensor(tensors, place.name, place.shape, place.axes)
        if values is not None:
            place.write(values)


def to_tensor(values: Any, axes: tuple[int, ...] | None) -> Tensor:
    """An array in a framework's layout as a tensor in torch's."""
    array = numpy.asarray(values, dtype="<f4")
    if axes is not None:
        array = array.transpose(_inverse(axes))
    array = numpy.ascontiguousarray(array)
    # An array without dimensions would come out with one.
    return Tensor(shape=tuple(numpy.shape(values)) if axes is None else array.shape, data=array)


def from_tensor(
    tensors: Mapping[str, Tensor],
    name: str,
    shape: Sequence[int],
    axes: tuple[int, ...] | None,
) -> Any:
    """The values of that tensor in a framework's layout and shape; None where it is missing."""
    own = shape if axes is None else [shape[place] for place in _inverse(axes)]
    found = find_tensor(tensors, name, own)
    if found is None:
        return None
    array = numpy.frombuffer(found.data, dtype="<f4").reshape(found.shape)
    return array if axes is None else numpy.ascontiguousarray(array.transpose(axes))


def channels_last_axes(graph: GraphSpec) -> dict[tuple[str, str], tuple[int, ...]]:
    """(Layer, parameter) -> order of torch's dimensions in frameworks that put inputs first."""
    turned: dict[tuple[str, str], tuple[int, ...]] = {}
    for layer in graph.layers:
        if layer.kind == "conv2d":
            turned[layer.name, "weight"] = (2, 3, 1, 0)
        elif layer.kind in ("linear", "linear_over_time"):
            turned[layer.name, "weight"] = (1, 0)
        elif layer.kind == "self_attention":
            turned[layer.name, "in_weight"] = turned[layer.name, "out_weight"] = (1, 0)
        elif layer.kind == "lstm":
            for number in range(layer.attributes["layers"]):
                turned[layer.name, f"weight_ih_l{number}"] = (1, 0)
                turned[layer.name, f"weight_hh_l{number}"] = (1, 0)
    return turned


def _inverse(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(axes)), key=lambda place: axes[place]))
