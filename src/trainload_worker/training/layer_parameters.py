"""Which parameters belong to which layer, by their names alone; knows no framework."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from trainload_worker.frameworks.backends import LayerSummary
from trainload_worker.protocol.graph import GraphSpec


def group_parameters(parameters: Iterable[tuple[str, Any]]) -> dict[str, dict[str, Any]]:
    """Layer -> parameter -> values, from full names such as `hidden1.linear.weight`."""
    grouped: dict[str, dict[str, Any]] = {}
    for name, values in parameters:
        layer, _, parameter = name.rpartition(".")
        grouped.setdefault(layer, {})[parameter] = values
    return grouped


def summarise_layers(graph: GraphSpec, sizes: Mapping[str, Sequence[int]]) -> list[LayerSummary]:
    """Every layer with the number of its trained values; `sizes` lists those of its parameters."""
    return [LayerSummary(layer.name, sum(sizes.get(layer.name, ()))) for layer in graph.layers]
