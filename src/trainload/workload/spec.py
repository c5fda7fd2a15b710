"""The workload: everything that decides what is trained, as one frozen value."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from trainload.checked import Bounds
from trainload.errors import WorkloadError
from trainload.workload.data.datasets import Data
from trainload.workload.graph.layers import LayerGraph

OptimizerName = Literal["adam", "adamw", "sgd", "rmsprop", "adagrad"]
Precision = Literal["float32", "bf16"]
Validate = Literal["epoch", "end", "never"]
Loader = Literal["cache", "native"]
Positive = Annotated[float, Bounds(above=0)]
NotNegative = Annotated[float, Bounds(low=0)]
Seed = Annotated[int, Bounds(low=0, high=2**31 - 1)]


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """The update rule; the defaults are study L's."""

    name: OptimizerName = "adam"
    learning_rate: Positive = 1e-4
    weight_decay: NotNegative = 1e-4
    momentum: Annotated[float, Bounds(low=0, below=1)] = 0.9
    """Used by sgd alone."""


@dataclass(frozen=True, kw_only=True)
class Seeds:
    """One seed for each source of chance, so that each can vary alone."""

    data: Seed = 0
    split: Seed = 0
    data_order: Seed = 0
    weights: Seed = 0


@dataclass(frozen=True, kw_only=True)
class Training:
    """How long, in which portions and how it is fed and validated; batch 512 is study L's."""

    batch_size: Annotated[int, Bounds(low=1, high=10**8)] = 512
    epochs: Annotated[int, Bounds(low=1, high=10**7)] = 10
    max_steps: Annotated[int, Bounds(low=1)] | None = None
    """Stop after so many steps, wherever the epoch stands; None trains all epochs."""
    precision: Precision = "float32"
    validate: Validate = "epoch"
    """When the validation rows are run over: after each epoch, the last one, or never."""
    top: tuple[Annotated[int, Bounds(low=1)], ...] = ()
    """Each n whose top-n accuracy is counted."""
    loader: Loader = "cache"
    """Who brings the training rows: our memory-mapped cache, or the framework's own pipeline."""
    loader_workers: Annotated[int, Bounds(low=0, high=256)] = 2
    """Processes or threads of a native loader."""
    optimizer: Optimizer = field(default_factory=Optimizer)


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

    def to_worker(self) -> dict[str, Any]:
        """What the worker needs beyond the setting."""
        return {
            "graph": self.graph.to_json(),
            "data": self.data.to_json(),
            "training": asdict(self.training),
            "seeds": asdict(self.seeds),
        }

    def to_json(self) -> dict[str, Any]:
        """The form kept in run.json."""
        return {
            "model": self.model,
            "model_options": dict(self.model_options),
            "parameters": self.graph.parameters,
            **self.to_worker(),
        }
