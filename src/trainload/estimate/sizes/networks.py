"""How large networks are: parameters, features of one example, FLOPs of its forward pass."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trainload.errors import GraphError
from trainload.estimate.sizes.detectors import DETECTORS
from trainload.workload import MODELS, build_model
from trainload.workload.graph.layers import LayerGraph

VALUE_BYTES = 4
_IN_PLACE = frozenset({"relu", "dropout", "flatten", "input"})
"""Kinds whose output takes the place of their input, as the published counts have it."""


@dataclass(frozen=True, kw_only=True)
class NetworkSize:
    """One network; published figures where somebody published them."""

    name: str
    input: str
    parameters: int
    feature_values: int
    """Outputs of layers that have their own, of one example."""
    flop_forward: int
    published_parameter_mib: float | None = None
    published_feature_mib: float | None = None

    @property
    def parameter_mib(self) -> float:
        """As float32."""
        return self.parameters * VALUE_BYTES / 2**20

    @property
    def feature_mib(self) -> float:
        """As float32."""
        return self.feature_values * VALUE_BYTES / 2**20


def size_of(
    name: str,
    graph: LayerGraph,
    parameter_mib: float | None = None,
    feature_mib: float | None = None,
) -> NetworkSize:
    """A graph in figures, with what was published of it beside."""
    features = sum(
        math.prod(layer.output_shape) for layer in graph.layers if layer.kind not in _IN_PLACE
    )
    return NetworkSize(
        name=name,
        input="×".join(map(str, graph.input_shape)),
        parameters=graph.parameters,
        feature_values=features,
        flop_forward=graph.flop_forward,
        published_parameter_mib=parameter_mib,
        published_feature_mib=feature_mib,
    )


def estimate_sizes(published: Iterable[Mapping[str, object]]) -> list[NetworkSize]:
    """The published networks, then the built-in ones with their default options.

    `published` has rows with `model`, `parameter_mb` and `feature_mb`; GraphError for a model that
    has no graph here.
    """
    found = []
    for row in published:
        name = str(row["model"])
        if name not in DETECTORS:
            raise GraphError(f"no layer graph of {name} is known here")
        parameters, features = float(str(row["parameter_mb"])), float(str(row["feature_mb"]))
        found.append(size_of(name, DETECTORS[name](), parameters, features))
    for name, model in MODELS.items():
        found.append(size_of(name, build_model(name, model.options())))
    return found
