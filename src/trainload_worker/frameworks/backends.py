"""What the training loop expects of every framework, as types; imports none of them."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Callable, Mapping, Protocol, Sequence

from trainload_worker.data.dataset import Dataset
from trainload_worker.data.split import Split
from trainload_worker.training.feed import Feed
from trainload_worker.training.state import ModelState

CONFUSION_CLASSES = 1000
"""Above so many classes an evaluation counts hits alone: 10,000 would need 800 MB."""


@dataclass(frozen=True)
class Opened:
    """Versions of the framework, and the device and threads it took of the setting asked for."""

    version: str
    software: Mapping[str, str | None]
    device: str
    threads: int | None
    accelerators: Sequence[Mapping[str, str | None]] | None
    """None where only the program will tell."""
    notes: Sequence[str]


@dataclass(frozen=True)
class LayerSummary:
    """Number of trained parameters that belong to one layer."""

    name: str
    parameter_count: int


@dataclass(frozen=True)
class StepBatch:
    """Steps in the order they were run: end on the monotonic clock, and loss where known.

    `examples` and `tokens` are as long, or empty where nobody counts them.
    """

    end_s: list[float]
    loss: list[float | None]
    examples: list[int | None] = field(default_factory=list)
    tokens: list[int | None] = field(default_factory=list)


@dataclass(frozen=True)
class Evaluation:
    """One pass over the validation rows; `confusion[truth][prediction]` counts rows.

    `top5_hits` counts rows whose class is among the five best; all rows with five classes or fewer.
    Where a row has a target for each of its tokens, tokens are counted in place of rows.
    """

    confusion: list[list[int]] | None
    """None above CONFUSION_CLASSES classes, where its memory grows beyond use."""
    loss_sum: float
    top5_hits: int
    row_count: int | None = None
    """Needed without a confusion matrix, as is the number of hits."""
    hits: int | None = None
    top_hits: Mapping[int, int] = field(default_factory=dict)
    """n -> rows whose class is among the n best, for every n that was asked for."""


class StepSource(Protocol):
    """Where finished steps come from."""

    def collect(self, drain: bool) -> StepBatch:
        """Steps finished since the last call; `drain` first waits for those still running."""


class Backend(StepSource, Protocol):
    """One framework on one device."""

    def open(self) -> Opened:
        """Sets threads and selects the device; FrameworkError where the device is not there."""

    def build(self, dataset: Dataset, split: Split) -> list[LayerSummary]:
        """Builds model and optimizer, prepares the data; the parameter count of each layer."""

    def run_step(self, rows: array[int]) -> None:
        """Trains on those rows of the data set; may return before the device has finished."""

    def evaluate(self) -> Evaluation:
        """Loss and hits of the model over all validation rows, in evaluation mode."""


class KeptBackend(Backend, Protocol):
    """A backend whose training can be saved and continued."""

    @property
    def state(self) -> ModelState:
        """The weights and what the optimizer keeps; there once the model is built."""

    @property
    def feed(self) -> Feed:
        """Where its steps take their rows from; there once the model is built."""


class RankedBackend(KeptBackend, Protocol):
    """A backend that can be one of several ranks."""

    def leave(self) -> None:
        """Parts from the other ranks, when all of them are done."""


class Probe(Protocol):
    """Watches a user's program from inside; never stops it."""

    def attach(self) -> None:
        """Installs its hooks."""

    def finish(self) -> None:
        """Writes the events still held back and removes its hooks."""


class StepSeer(Probe, Protocol):
    """A probe that sees steps."""

    on_backward_step: Callable[[int], None] | None
    """Called with the number of each step that a backward pass ends, for want of an optimizer."""


class StepFollower(Probe, Protocol):
    """A probe that follows steps, by itself or as it is told."""

    def mark_step(self, number: int | None = None) -> None:
        """A step has ended, in a program whose optimizers do not tell it; the next one or this."""
