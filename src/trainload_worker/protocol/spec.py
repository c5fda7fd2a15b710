"""What a worker is told: train, run a script, launch, trace, sweep, measure; as frozen values.

The driver builds one and writes it on the worker's standard input; touches no device or disk.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Literal, Mapping, Optional, Tuple, Union

from trainload_worker.errors import SpecError
from trainload_worker.protocol.checked import (
    Annotated,
    Bounds,
    CheckError,
    check_value,
    to_json,
)
from trainload_worker.protocol.data import Data, Size
from trainload_worker.protocol.graph import GraphSpec
from trainload_worker.protocol.training import Positive, Seeds, Training

FORMAT: Literal[2] = 2
Share = Annotated[float, Bounds(above=0, below=1)]


@dataclass(frozen=True)
class SettingSpec:
    """The part of the machine to use; None leaves that part as the process found it."""

    cores: Optional[Tuple[int, ...]] = None
    threads: Optional[Size] = None
    accelerators: Tuple[str, ...] = ()
    """Their UUIDs."""


@dataclass(frozen=True)
class LayersSpec:
    """Tracing of layers: its share of the training time, and where windows are saved."""

    budget: Share
    folder: str
    file_form: str
    """A file's name, with `{index}` for the number of the window."""
    plan: Optional[str] = None
    """Where processes that train together agree on windows; None for one alone."""
    leads: bool = True
    """Whether this process decides for the others."""
    ask: Optional[str] = None
    """A file whose appearance asks for a window at once; None where nobody can ask."""


@dataclass(frozen=True)
class SaveSpec:
    """Where checkpoints are left: at the end, and after every `every` epochs where told."""

    path: str
    epoch_form: str
    """Path of a checkpoint between epochs, with `{epoch}` for the epochs that are done."""
    every: Optional[Size] = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    """What the driver knows of the run, written into the file as it is."""


@dataclass(frozen=True)
class ResumeSpec:
    """The checkpoint that the training continues."""

    path: str


@dataclass(frozen=True)
class RankSpec:
    """Which of several processes that train one model this is."""

    number: Annotated[int, Bounds(low=0)]
    count: Annotated[int, Bounds(low=2)]

    def share(self, total: int) -> slice:
        """This rank's part of so many things in order; parts differ by one at most."""
        return slice(*self._bounds(total))

    def share_count(self, total: int) -> int:
        """How many of so many things are this rank's."""
        first, last = self._bounds(total)
        return last - first

    def _bounds(self, total: int) -> Tuple[int, int]:
        return self.number * total // self.count, (self.number + 1) * total // self.count


@dataclass(frozen=True)
class TrainSpec:
    """All that a run of a layer graph needs to know."""

    events_path: str
    framework: str
    graph: GraphSpec
    data: Data
    training: Training
    seeds: Seeds
    setting: SettingSpec
    parent_pid: Optional[int] = None
    fake: Mapping[str, Any] = field(default_factory=dict)
    """Options of the fake framework."""
    layers: Optional[LayersSpec] = None
    save: Optional[SaveSpec] = None
    resume: Optional[ResumeSpec] = None
    validate_only: bool = False
    """Trains nothing: the checkpoint of `resume` is scored on the validation rows."""
    rank: Optional[RankSpec] = None
    """None where one process trains alone."""
    task: Literal["train"] = "train"
    format: Literal[2] = 2


@dataclass(frozen=True)
class ScriptSpec:
    """All that a run of a user's script needs to know."""

    events_path: str
    framework: str
    path: str
    setting: SettingSpec
    arguments: Tuple[str, ...] = ()
    parent_pid: Optional[int] = None
    layers: Optional[LayersSpec] = None
    rank: Optional[Annotated[int, Bounds(low=0)]] = None
    """Which of several processes this is; None for the only one."""
    stdin_fd: Optional[Annotated[int, Bounds(low=3)]] = None
    """The descriptor it reads from, to be put in its usual place; None where it reads nothing."""
    task: Literal["script"] = "script"
    format: Literal[2] = 2


@dataclass(frozen=True)
class RankFiles:
    """Where one of several processes leaves its record."""

    events_path: str
    window_form: str


@dataclass(frozen=True)
class LaunchSpec:
    """All that is needed to run a script, or train a graph, in several processes at once."""

    events_path: str
    command: Tuple[str, ...]
    """Starts a worker, which reads its own specification from standard input."""
    ranks: Tuple[RankFiles, ...]
    setting: SettingSpec
    work: Union[ScriptSpec, TrainSpec]
    """That of a rank, but for its number, its files and its share of the setting."""
    parent_pid: Optional[int] = None
    task: Literal["launch"] = "launch"
    format: Literal[2] = 2

    def __post_init__(self) -> None:
        if not self.command or not self.ranks:
            raise CheckError(f"{'ranks' if self.command else 'command'} must not be empty")


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
    target: Literal["cuda", "cpu"]
    """Whose choices the step makes."""
    iterations: Size
    limit_s: Positive
    setting: SettingSpec
    source: Union[GraphSpec, BuildSpec, ScriptSpec]
    parent_pid: Optional[int] = None
    capability: Tuple[int, int] = (9, 0)
    """Of the GPU that is pretended, as CUDA numbers it."""
    data: Optional[Data] = None
    """What the rows of a graph are; None for the user's own code."""
    training: Optional[Training] = None
    """None for a script, which brings its own."""
    checkpoint_blocks: bool = False
    """Whether blocks of the model are recomputed in the backward pass instead of kept."""
    task: Literal["trace"] = "trace"
    format: Literal[2] = 2


@dataclass(frozen=True)
class SweepSpec:
    """All that is needed to time the kernels of a device."""

    events_path: str
    framework: str
    target: Literal["cuda", "cpu"]
    limit_s: Positive
    """Seconds that the sweep may take, the start of the framework not counted."""
    setting: SettingSpec
    hold_s: Annotated[float, Bounds(low=0, high=10)] = 0.0
    """How long an operation is repeated for its power to be read; 0 where nothing reads it."""
    parent_pid: Optional[int] = None
    task: Literal["sweep"] = "sweep"
    format: Literal[2] = 2


@dataclass(frozen=True)
class MeasureSpec:
    """All that is needed to measure what a machine reaches, by the programs of `measure`."""

    events_path: str
    framework: str
    programs: Tuple[str, ...]
    folder: str
    """For files, on the drive that is measured."""
    limit_s: Positive
    """After which no further program begins."""
    setting: SettingSpec
    quick: bool = False
    parent_pid: Optional[int] = None
    task: Literal["measure"] = "measure"
    format: Literal[2] = 2


AnySpec = Union[TrainSpec, ScriptSpec, LaunchSpec, TraceSpec, SweepSpec, MeasureSpec]


def parse_spec(text: "str | bytes") -> AnySpec:
    """The specification in a JSON document; SpecError names the field that is wrong."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise SpecError(f"the specification is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise SpecError("the specification must be a JSON object")
    found = document.get("format")
    if found != FORMAT:
        raise SpecError(f"the specification has format {found!r}; this worker reads {FORMAT}")
    try:
        spec: AnySpec = check_value(AnySpec, document, "the specification")
    except CheckError as error:
        raise SpecError(str(error)) from None
    return spec


def dump_spec(spec: AnySpec) -> bytes:
    """The document that `parse_spec` reads back to an equal specification."""
    return json.dumps(to_json(spec), allow_nan=False).encode("ascii")
