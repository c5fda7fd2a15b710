"""A graph while it is written: layers are added one after another, by default each on the last."""

from collections.abc import Sequence
from typing import Any

from trainload.workload.graph.layers import LayerGraph, build_graph
from trainload_worker.protocol.graph import LayerSpec


class GraphDraft:
    """The layers written so far; checked as a whole by `finish`."""

    def __init__(self, shape: Sequence[int], dtype: str = "float32") -> None:
        self._layers = [
            LayerSpec(name="input", kind="input", attributes={"shape": list(shape), "dtype": dtype})
        ]

    @property
    def last(self) -> str:
        """Name of the layer added last."""
        return self._layers[-1].name

    def add(self, name: str, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add one layer, on the last one where no inputs are named; its name."""
        layer = LayerSpec(
            name=name, kind=kind, inputs=inputs or (self.last,), attributes=attributes
        )
        self._layers.append(layer)
        return name

    def add_dropout(self, name: str, rate: float) -> None:
        """Add a dropout, or nothing where the rate is 0."""
        if rate > 0:
            self.add(name, "dropout", rate=rate)

    def finish(self, name: str) -> LayerGraph:
        """The checked graph; GraphError names the layer that cannot be built."""
        return build_graph(name, self._layers)
