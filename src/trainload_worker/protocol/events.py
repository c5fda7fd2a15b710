"""What a worker says while it runs: one frozen type for each kind of line in events.jsonl.

The worker writes them, the driver and readers parse them. Times are the monotonic clock's, in
seconds. Opens no file.
"""

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Dict, List, Literal, Mapping, Optional, Tuple, Type, Union

from trainload_worker.protocol.checked import CheckError, read_leniently
from trainload_worker.protocol.marks import Marked
from trainload_worker.protocol.measure import MachineFacts, Measured, MeasureLack
from trainload_worker.protocol.outcomes import WorkerOutcome
from trainload_worker.protocol.sweep import (
    SweepBegun,
    SweepDispatch,
    SweepHeld,
    SweepIdle,
    SweepLack,
    SweepPoint,
)
from trainload_worker.protocol.windows import (
    CompiledGraph,
    HostStacks,
    Index,
    LayersFailed,
    ModuleTable,
    WindowSaved,
)

Metric = Optional[float]


@dataclass(frozen=True)
class Hello:
    """The worker is there; both clocks, read together."""

    t_s: float
    wall_s: Metric = None
    pid: Optional[int] = None
    python: Optional[str] = None
    framework: Optional[str] = None
    framework_version: Optional[str] = None
    software: Mapping[str, Optional[str]] = field(default_factory=dict)
    KIND: ClassVar[str] = "hello"


@dataclass(frozen=True)
class ObtainedAccelerator:
    """An accelerator as the framework found it."""

    name: Optional[str] = None
    uuid: Optional[str] = None


@dataclass(frozen=True)
class Obtained:
    """What the worker got of the setting that was asked for; None where it cannot tell."""

    cores: Optional[Tuple[int, ...]] = None
    threads: Optional[int] = None
    device: Optional[str] = None
    accelerators: Optional[Tuple[ObtainedAccelerator, ...]] = None
    """None where only the program will tell."""
    notes: Tuple[str, ...] = ()


@dataclass(frozen=True)
class SettingTaken:
    """The setting is in use."""

    obtained: Obtained
    KIND: ClassVar[str] = "setting"


@dataclass(frozen=True)
class ImageCache:
    """The file of decoded images that the rows come from."""

    path: Optional[str] = None
    built_by_this_run: Optional[bool] = None
    layout: Optional[str] = None
    shape: Optional[Tuple[int, ...]] = None
    resize: Optional[str] = None


@dataclass(frozen=True)
class BrokenFile:
    """A file that could not be decoded, and why."""

    file: str
    reason: Optional[str] = None


@dataclass(frozen=True)
class DataReady:
    """Rows, groups and steps as the worker found them; classes are listed where they are few."""

    train_rows: Optional[int] = None
    validation_rows: Optional[int] = None
    train_groups: Optional[int] = None
    validation_groups: Optional[int] = None
    class_count: Optional[int] = None
    steps_per_epoch: Optional[int] = None
    total_steps: Optional[int] = None
    form: Optional[str] = None
    normalisation: Optional[str] = None
    rows_left_out_of_each_epoch: Optional[int] = None
    classes: Optional[Tuple[str, ...]] = None
    validation_class_counts: Optional[Mapping[str, int]] = None
    cache: Optional[ImageCache] = None
    broken_count: Optional[int] = None
    broken: Tuple[BrokenFile, ...] = ()
    """The first few files that could not be decoded."""
    KIND: ClassVar[str] = "data"


@dataclass(frozen=True)
class LayerParameters:
    """How many trained values one layer has."""

    name: str
    parameters: Optional[int] = None


@dataclass(frozen=True)
class ModelBuilt:
    """The model's trained values, in all and by layer."""

    parameters: Optional[int] = None
    layers: Tuple[LayerParameters, ...] = ()
    KIND: ClassVar[str] = "model"


@dataclass(frozen=True)
class MemoryUse:
    """Resident memory when the model was built and its peak since, peaks of torch's allocator.

    In bytes; None where nothing told them.
    """

    start_rss_bytes: Optional[int] = None
    peak_rss_bytes: Optional[int] = None
    peak_allocated_bytes: Optional[int] = None
    peak_reserved_bytes: Optional[int] = None
    KIND: ClassVar[str] = "memory"


COMPILE, RECOMPILE = "compile", "recompile"
"""Phases in which a compiler worked, for the first time and again; they lie within others."""


@dataclass(frozen=True)
class PhaseEdge:
    """A phase of the run begins or ends."""

    name: str
    edge: Literal["begin", "end"]
    t_s: float
    detail: Optional[str] = None
    """Of what, and why, where that is known at its beginning."""
    KIND: ClassVar[str] = "phase"


@dataclass(frozen=True)
class StepsDone:
    """Steps one after the other, the first from `start_s` on; a loss that is not known is None."""

    epoch: Index
    first_step: Index
    start_s: float
    end_s: Tuple[float, ...]
    loss: Tuple[Metric, ...]
    examples: Tuple[Optional[int], ...] = ()
    """That each step trained on; empty where nothing tells it of any."""
    tokens: Tuple[Optional[int], ...] = ()
    KIND: ClassVar[str] = "steps"


@dataclass(frozen=True)
class StepMarks:
    """What ends a step from here on: an optimizer's step unless this says otherwise.

    Where an optimizer takes over, what backward passes were taken for before are no steps.
    """

    by: Literal["optimizer", "backward"]
    """`backward`: each backward pass, since no optimizer of the framework steps."""
    t_s: Metric = None
    KIND: ClassVar[str] = "step_marks"


@dataclass(frozen=True)
class ProbeNote:
    """Something about what the probe saw that a reader should know; steps go on to be seen."""

    words: str
    t_s: Metric = None
    KIND: ClassVar[str] = "probe_note"


@dataclass(frozen=True)
class EpochDone:
    """An epoch's training and, where it followed, its validation."""

    epoch: Index
    start_s: float
    end_s: float
    steps: Optional[Index] = None
    train_loss: Metric = None
    input_wait_s: Metric = None
    validation_start_s: Metric = None
    validation_end_s: Metric = None
    validation: Mapping[str, Any] = field(default_factory=dict)
    """Scores by name; `top_n` holds further ones by n."""
    KIND: ClassVar[str] = "epoch"


@dataclass(frozen=True)
class ProbeFailed:
    """Steps are no longer seen; the training goes on."""

    reason: str
    t_s: Metric = None
    state: Literal["failed"] = "failed"
    KIND: ClassVar[str] = "probe"


@dataclass(frozen=True)
class CheckpointSaved:
    """A checkpoint stands in the run directory; `epoch` and `step` count what is done."""

    state: Literal["saved", "failed"]
    file: Optional[str] = None
    epoch: Optional[int] = None
    step: Optional[int] = None
    bytes: Optional[int] = None
    cost_s: Metric = None
    t_s: Metric = None
    reason: Optional[str] = None
    """Why it failed."""
    KIND: ClassVar[str] = "checkpoint"


@dataclass(frozen=True)
class OpTraceStep:
    """A step has been traced on fake tensors."""

    step: int
    t_s: Metric = None
    KIND: ClassVar[str] = "op_trace_step"


@dataclass(frozen=True)
class OpTraceSaved:
    """The op trace is written."""

    steps: int
    operations: int
    notes: Tuple[str, ...] = ()
    alike: Optional[Tuple[Tuple[int, int], Tuple[int, int]]] = None
    """Capabilities whose step is the same: from the first on, below the second; None: only the
    one that was asked for."""
    KIND: ClassVar[str] = "op_trace"


@dataclass(frozen=True)
class End:
    """The run's end, in the worker's words; the driver decides the outcome."""

    outcome: WorkerOutcome
    reason: Optional[str] = None
    t_s: Metric = None
    events_lost: int = 0
    rank: Optional[int] = None
    """Which of several processes ended it."""
    signal: Optional[int] = None
    """The signal that ended that process without a last word."""
    KIND: ClassVar[str] = "end"


@dataclass(frozen=True)
class RankEnd(End):
    """The end of one of several processes; that of the run is the launcher's to tell."""

    KIND: ClassVar[str] = "rank_end"


Event = Union[
    Hello,
    SettingTaken,
    DataReady,
    ModelBuilt,
    MemoryUse,
    PhaseEdge,
    StepsDone,
    StepMarks,
    ProbeNote,
    EpochDone,
    WindowSaved,
    HostStacks,
    ModuleTable,
    CompiledGraph,
    LayersFailed,
    ProbeFailed,
    CheckpointSaved,
    Marked,
    OpTraceStep,
    OpTraceSaved,
    SweepBegun,
    SweepIdle,
    SweepPoint,
    SweepHeld,
    SweepDispatch,
    SweepLack,
    MachineFacts,
    Measured,
    MeasureLack,
    End,
    RankEnd,
]

EVENTS: Mapping[str, Type[Any]] = {kind.KIND: kind for kind in Event.__args__}  # type: ignore[attr-defined]


def event_fields(event: Event) -> Dict[str, Any]:
    """The line's content, one level deep: parts of it may still be dataclasses."""
    content = {spec.name: getattr(event, spec.name) for spec in fields(event)}
    return {"kind": event.KIND, **content}


def parse_event(value: Any) -> "Event | None":
    """The event of one parsed line.

    CheckError where the line is damaged; None for a kind that this version does not know.
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("kind"), str):
        raise CheckError("an event is an object with a kind")
    kind = EVENTS.get(value["kind"])
    if kind is None:
        return None
    notes: List[str] = []
    event: Event = read_leniently(kind, value, notes)
    return event
