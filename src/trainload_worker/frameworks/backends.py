"""The seam between the training loop and the frameworks; imports a framework only when asked."""

from __future__ import annotations

import importlib
import os
from array import array
from dataclasses import dataclass, field
from typing import Mapping, Protocol, Sequence

from trainload_worker.data.dataset import Dataset
from trainload_worker.data.split import Split
from trainload_worker.errors import FrameworkError, SpecError
from trainload_worker.process.events import EventWriter
from trainload_worker.protocol.spec import LayersSpec, TrainSpec
from trainload_worker.training.feed import Feed
from trainload_worker.training.state import ModelState

BACKENDS: Mapping[str, str] = {
    "torch": "trainload_worker.frameworks.torch.backend",
    "tensorflow": "trainload_worker.frameworks.tensorflow.backend",
    "jax": "trainload_worker.frameworks.jax.backend",
    "mxnet": "trainload_worker.frameworks.mxnet.backend",
    "fake": "trainload_worker.frameworks.fake.backend",
}
"""Framework -> module, which offers `create(spec) -> Backend` and imports its framework."""

_THREAD_VARIABLES: Mapping[str, Sequence[str]] = {
    # XLA's pool on the CPU; there is no option for it.
    "jax": ("NPROC",),
    # The engine's own workers are one; operations use as many threads as OpenMP has.
    "mxnet": ("OMP_NUM_THREADS", "MXNET_OMP_MAX_THREADS"),
}
"""Environment variables that a framework reads its number of threads from, when imported."""

CONFUSION_CLASSES = 1000
"""Above so many classes an evaluation counts hits alone: 10,000 would need 800 MB."""


@dataclass(frozen=True)
class Opened:
    """The framework as found: versions, and what it gave of the setting asked for."""

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
    """Steps in the order they were run: end on the monotonic clock, and loss where known."""

    end_s: list[float]
    loss: list[float | None]


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


class Backend(Protocol):
    """One framework on one device."""

    def open(self) -> Opened:
        """Takes the setting into use; FrameworkError where the device is not there."""

    def build(self, dataset: Dataset, split: Split) -> list[LayerSummary]:
        """Builds the model and the optimizer and takes the data over, without training."""

    def run_step(self, rows: array[int]) -> None:
        """Trains on those rows of the data set; may return before the device has finished."""

    def collect(self, drain: bool) -> StepBatch:
        """Steps finished since the last call; `drain` first waits for those still running."""

    def evaluate(self) -> Evaluation:
        """Runs the model over all validation rows."""


class KeptBackend(Backend, Protocol):
    """A backend whose training can be saved and continued."""

    @property
    def state(self) -> ModelState:
        """The weights and what the optimizer keeps; there once the model is built."""

    @property
    def feed(self) -> Feed:
        """Where its steps take their rows from; there once the model is built."""


def create_backend(spec: TrainSpec) -> KeptBackend:
    """Imports the framework and readies its backend; FrameworkError where it cannot be imported."""
    if spec.framework not in BACKENDS:
        known = ", ".join(sorted(BACKENDS))
        raise SpecError(f"framework {spec.framework!r} is unknown; this worker has {known}")
    if spec.setting.threads is not None:
        for name in _THREAD_VARIABLES.get(spec.framework, ()):
            os.environ[name] = str(spec.setting.threads)
    try:
        module = importlib.import_module(BACKENDS[spec.framework])
    except (ImportError, OSError) as error:
        raise FrameworkError(f"{spec.framework} cannot be imported: {error}") from error
    backend: KeptBackend = module.create(spec)
    return backend


class Probe(Protocol):
    """Watches a user's program from inside; never stops it."""

    def attach(self) -> None:
        """Begins to watch."""

    def finish(self) -> None:
        """Writes what is still held and stops watching."""


def create_probe(framework: str, events: EventWriter) -> tuple[Probe, Opened]:
    """The probe for programs of that framework, which it imports; FrameworkError if it cannot."""
    if framework != "torch":
        raise SpecError(f"scripts of {framework!r} cannot be watched; this worker knows torch")
    try:
        module = importlib.import_module("trainload_worker.frameworks.torch.probe")
    except (ImportError, OSError) as error:
        raise FrameworkError(f"{framework} cannot be imported: {error}") from error
    return module.StepProbe(events), module.open_torch()


def create_layer_probe(framework: str, events: EventWriter, layers: LayersSpec | None) -> Probe:
    """The probe that tells layers apart, or one that does nothing where none is asked for."""
    if layers is None:
        return NoProbe()
    if framework != "torch":
        raise SpecError(f"layers of {framework!r} cannot be told apart; this worker knows torch")
    probe: Probe = importlib.import_module("trainload_worker.frameworks.torch.layers").LayerProbe(
        events, layers
    )
    return probe


def watch_layers(
    backend: Backend, spec: TrainSpec, summaries: Sequence[LayerSummary], events: EventWriter
) -> tuple[Backend, Probe]:
    """The backend to train with and the probe that tells layers apart, where that is asked for."""
    if spec.layers is None or spec.framework == "torch":
        return backend, create_layer_probe(spec.framework, events, spec.layers)
    if not hasattr(backend, "make_tracer"):
        raise SpecError(f"layers of {spec.framework!r} cannot be told apart; leave --layers out")
    # At the top it would be a circle: it is a backend itself.
    windows = importlib.import_module("trainload_worker.windows.graph_windows").LayerWindows(
        backend, spec, spec.layers, summaries, events
    )
    return windows, windows


class NoProbe:
    """Watches nothing."""

    def attach(self) -> None:
        """Nothing to begin."""

    def finish(self) -> None:
        """Nothing to end."""
