"""The run's specification as frozen values; touches no device or disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Union

from trainload_worker.protocol.run_options import LoaderSpec, ResumeSpec, SaveSpec, ValidationSpec


@dataclass(frozen=True)
class LayerSpec:
    """One named layer of the graph; shapes leave the batch dimension out."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    output_shape: tuple[int, ...]


@dataclass(frozen=True)
class GraphSpec:
    """A layer graph in topological order."""

    name: str
    layers: tuple[LayerSpec, ...]
    output: str


@dataclass(frozen=True)
class KeypointsSpec:
    """A generated set of pose frames: `class_counts` rows of each class."""

    class_counts: Mapping[str, int]
    features: int
    validation_fraction: float


@dataclass(frozen=True)
class CsvSpec:
    """A table on disk; without a group column each row is its own group."""

    path: str
    label_column: str
    group_column: str | None
    feature_columns: tuple[str, ...]
    classes: tuple[str, ...]
    validation_fraction: float


@dataclass(frozen=True)
class SyntheticSpec:
    """Examples drawn from the seed; `classes` counts the tokens of a stream."""

    form: str
    """images (uint8), tokens (int64), token_stream (int64) or vectors (float32)."""
    shape: tuple[int, ...]
    rows: int
    classes: int
    vocabulary: int | None
    validation_fraction: float


@dataclass(frozen=True)
class ImagesSpec:
    """Images on disk, brought to `shape` (channels, height, width) once and kept in `cache`."""

    source: str
    """folder, subset, cifar10 or mnist."""
    path: str
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    resize: str
    """none, pad, nearest, or fit: scaled to cover, then cut at the centre."""
    own_validation: bool
    """Whether the data's own validation images are used, and not a share of all."""
    cache: str
    validation_fraction: float


@dataclass(frozen=True)
class ArraySpec:
    """The values of an npy file: its type as npy writes it, its shape, and where they begin."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class NpySpec:
    """Arrays on disk; without labels the features are a stream of tokens."""

    features: ArraySpec
    labels: ArraySpec | None
    shape: tuple[int, ...]
    """Of one example."""
    classes: int
    validation_fraction: float


DataSpec = Union[KeypointsSpec, CsvSpec, SyntheticSpec, ImagesSpec, NpySpec]


@dataclass(frozen=True)
class OptimizerSpec:
    """An optimizer by name; `momentum` is read by sgd alone."""

    name: str
    learning_rate: float
    weight_decay: float
    momentum: float


@dataclass(frozen=True)
class TrainingSpec:
    """How long and how to train; `max_steps` of None means every epoch in full."""

    batch_size: int
    epochs: int
    max_steps: int | None
    optimizer: OptimizerSpec
    precision: str
    validation: ValidationSpec
    loader: LoaderSpec


@dataclass(frozen=True)
class SeedsSpec:
    """The four independent sources of chance."""

    data_order: int
    weights: int
    split: int
    data: int


@dataclass(frozen=True)
class SettingSpec:
    """The part of the machine to use; None leaves that part as the process found it."""

    cores: tuple[int, ...] | None
    threads: int | None
    accelerators: tuple[str, ...]


@dataclass(frozen=True)
class LayersSpec:
    """Tracing of layers: its share of the training time, and where windows are saved."""

    budget: float
    folder: str
    file_form: str
    """A file's name, with `{index}` for the number of the window."""
    plan: str | None = None
    """Where processes that train together agree on windows; None for one alone."""
    leads: bool = True
    """Whether this process decides for the others."""


@dataclass(frozen=True)
class Spec:
    """All that a run of a layer graph needs to know."""

    events_path: str
    framework: str
    graph: GraphSpec
    data: DataSpec
    training: TrainingSpec
    seeds: SeedsSpec
    setting: SettingSpec
    parent_pid: int | None
    fake: Mapping[str, Any]
    layers: LayersSpec | None
    save: SaveSpec | None = None
    resume: ResumeSpec | None = None
    validate_only: bool = False
    """Trains nothing: the checkpoint of `resume` is scored on the validation rows."""


@dataclass(frozen=True)
class ScriptSpec:
    """All that a run of a user's script needs to know."""

    events_path: str
    framework: str
    path: str
    arguments: tuple[str, ...]
    setting: SettingSpec
    parent_pid: int | None
    layers: LayersSpec | None
    rank: int | None
    """Which of several processes this is; None for the only one."""


@dataclass(frozen=True)
class RankFiles:
    """Where one of several processes leaves its record."""

    events_path: str
    window_form: str


@dataclass(frozen=True)
class LaunchSpec:
    """All that is needed to run a user's script in several processes at once."""

    events_path: str
    command: tuple[str, ...]
    """Starts a worker, which reads its own specification from standard input."""
    ranks: tuple[RankFiles, ...]
    setting: SettingSpec
    parent_pid: int | None
    document: Mapping[str, Any]
    """The specification itself, from which those of the ranks are made."""


@dataclass(frozen=True)
class BuildSpec:
    """A function in a user's file that makes a model and the function for its loss."""

    path: str
    function: str


@dataclass(frozen=True)
class TraceSpec:
    """All that is needed to trace the operations of a step without running it."""

    events_path: str
    framework: str
    trace_path: str
    target: str
    """cuda or cpu: whose choices the step makes."""
    capability: tuple[int, int]
    """Of the GPU that is pretended, as CUDA numbers it."""
    iterations: int
    limit_s: float
    setting: SettingSpec
    parent_pid: int | None
    source: GraphSpec | BuildSpec | ScriptSpec
    data: DataSpec | None
    """What the rows of a graph are; None for the user's own code."""
    training: TrainingSpec | None
    """None for a script, which brings its own."""
    checkpoint_blocks: bool = False
    """Whether blocks of the model are computed again on the way back instead of kept."""


AnySpec = Union[Spec, ScriptSpec, LaunchSpec, TraceSpec]
