"""The workload: everything that decides what is trained, as one frozen value."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainload.errors import WorkloadError
from trainload.workload.graph.layers import LayerGraph
from trainload_worker.protocol.data import Data
from trainload_worker.protocol.training import Optimizer, Precision, Seeds, Training

__all__ = ["Optimizer", "Precision", "Seeds", "Training", "Workload"]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What is trained."""

    model: str
    model_options: Mapping[str, Any]
    graph: LayerGraph
    data: Data
    training: Training
    seeds: Seeds

    def __post_init__(self) -> None:
        data, graph = self.data, self.graph
        if graph.input_shape != data.example_shape:
            takes, gives = list(graph.input_shape), list(data.example_shape)
            said = f"{gives[0]} features" if len(gives) == 1 else f"examples of shape {gives}"
            raise WorkloadError(f"{self.model}: the input takes {takes}, but the data has {said}")
        if graph.output_shape[-1] != data.class_count:
            raise WorkloadError(
                f"{self.model}: the output gives {list(graph.output_shape)}, "
                f"but the data has {data.class_count} classes"
            )
        too_many = [n for n in self.training.top if n > data.class_count]
        if too_many:
            raise WorkloadError(
                f"--top {too_many[0]}: {self.model} tells {data.class_count} classes apart; "
                "give a smaller number"
            )

    @property
    def epochs(self) -> int:
        """Passes over the training data that are planned."""
        return self.training.epochs
