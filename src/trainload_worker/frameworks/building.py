"""Builds a layer by its kind, with the same complaints in every framework; knows none of them."""

from __future__ import annotations

from typing import Any, Callable, Mapping

from trainload_worker.errors import GraphError
from trainload_worker.protocol.graph import LayerSpec


def build_layer(
    framework: str, builders: Mapping[str, Callable[..., Any]], layer: LayerSpec, *given: Any
) -> Any:
    """What the builder of the layer's kind makes of `given`; GraphError for what is missing."""
    if layer.kind not in builders:
        raise GraphError(
            f"layer {layer.name} is of kind {layer.kind!r}, unknown to {framework} here"
        )
    try:
        return builders[layer.kind](*given)
    except KeyError as error:
        raise GraphError(f"layer {layer.name} lacks the attribute {error}") from error
