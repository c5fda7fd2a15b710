"""How a graph is trained: optimizer, length, precision, validation, loader, seeds."""

from dataclasses import dataclass, field
from typing import Literal, Optional, Tuple

from trainload_worker.protocol.checked import Annotated, Bounds

OptimizerName = Literal["adam", "adamw", "sgd", "rmsprop", "adagrad"]
Precision = Literal["float32", "bf16", "fp16"]
HALVES = ("bf16", "fp16")
"""Precisions of autocast; fp16 comes with a gradient scaler, and its range needs one."""
Validate = Literal["epoch", "end", "never"]
Loader = Literal["cache", "native"]
Positive = Annotated[float, Bounds(above=0)]
NotNegative = Annotated[float, Bounds(low=0)]
Seed = Annotated[int, Bounds(low=0, high=2**31 - 1)]


@dataclass(frozen=True)
class Optimizer:
    """The update rule; the defaults are those of Finocchiaro 2024."""

    name: OptimizerName = "adam"
    learning_rate: Positive = 1e-4
    weight_decay: NotNegative = 1e-4
    momentum: Annotated[float, Bounds(low=0, below=1)] = 0.9
    """Used by sgd alone."""


@dataclass(frozen=True)
class Seeds:
    """One seed for each source of chance, so that each can vary alone."""

    data: Seed = 0
    split: Seed = 0
    data_order: Seed = 0
    weights: Seed = 0


@dataclass(frozen=True)
class Training:
    """How long, in which portions and how it is fed and validated; batch 512 is Finocchiaro's."""

    batch_size: Annotated[int, Bounds(low=1, high=10**8)] = 512
    epochs: Annotated[int, Bounds(low=1, high=10**7)] = 10
    max_steps: Optional[Annotated[int, Bounds(low=1)]] = None
    """Stop after so many steps, wherever the epoch stands; None trains all epochs."""
    precision: Precision = "float32"
    validate: Validate = "epoch"
    """When the validation rows are run over: after each epoch, the last one, or never."""
    folds: Optional[Annotated[int, Bounds(low=2, high=10**6)]] = None
    """Into how many parts the groups are divided, one of which is held out; None takes a share."""
    fold: Annotated[int, Bounds(low=0)] = 0
    """Which of the `folds` parts is held out, counted from 0."""
    top: Tuple[Annotated[int, Bounds(low=1)], ...] = ()
    """Each n whose top-n accuracy is counted."""
    loader: Loader = "cache"
    """Who brings the training rows: our memory-mapped cache, or the framework's own pipeline."""
    loader_workers: Annotated[int, Bounds(low=0, high=256)] = 2
    """Processes or threads of a native loader."""
    optimizer: Optimizer = field(default_factory=Optimizer)
