"""The parts of run.json as types; values alone, read and written by the manifest.

What a record does not hold, or holds wrongly, is None or empty: never 0 or a neighbour's figure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from trainload.hardware import Setting
from trainload_worker.protocol.events import MemoryUse, ModelBuilt, Obtained

OverheadVerdict = Literal["resolved", "not_resolvable", "not_measured"]
Provenance = Literal["measured", "derived", "unavailable"]


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The run's start and end on both clocks; intervals use the monotonic one."""

    start_s: float
    start_wall_s: float | None = None
    end_s: float | None = None
    end_wall_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class AskedSetting:
    """The setting's words as the user gave them; None where the default was taken."""

    setting: str | None = None
    threads: int | None = None


@dataclass(frozen=True, kw_only=True)
class RecordedSetting:
    """What was asked, what that meant on the machine, and what the worker then had."""

    asked: AskedSetting = AskedSetting()
    resolved: Setting | None = None
    obtained: Obtained | None = None
    """None where the worker never said."""


@dataclass(frozen=True, kw_only=True)
class RecordedRank:
    """One of several processes that trained together, in its own words."""

    obtained: Obtained | None = None
    """Its part of the setting; None where it never said."""
    memory: MemoryUse = MemoryUse()


@dataclass(frozen=True, kw_only=True)
class Processes:
    """Process numbers of driver and worker on their machine."""

    pid: int | None = None
    worker_pid: int | None = None


@dataclass(frozen=True, kw_only=True)
class RecordedQuantity:
    """One column of the samples, and where its values come from."""

    column: str
    provenance: Provenance | None = None
    source: str | None = None
    refresh_s: float | None = None
    """How often the source really changes; 0 where it is worked out at each read."""
    reason: str | None = None
    capacity: float | None = None
    """The value that counts as 1.0 load, in the column's unit."""
    cumulative: bool | None = None
    """A counter that only grows."""
    unit: str | None = None


@dataclass(frozen=True, kw_only=True)
class RecordedMeter:
    """A meter with what it offered; `reason` says why it offered nothing."""

    name: str
    period_s: float | None = None
    reason: str | None = None
    quantities: tuple[RecordedQuantity, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SamplerUse:
    """What the sampler did and what it took; None where it could not tell any more."""

    rate_hz: float | None = None
    samples: int | None = None
    late: int | None = None
    missed: int | None = None
    lost_lines: int | None = None
    paused_s: float | None = None
    cpu_s: float | None = None
    loop_cpu_s: float | None = None
    """Without opening the meters, which is paid once."""
    wall_s: float | None = None
    peak_rss_bytes: int | None = None
    meter_errors: Mapping[str, int] = field(default_factory=dict)
    meter_cpu_s: Mapping[str, float] = field(default_factory=dict)
    restarts: int | None = None
    cores: tuple[int, ...] | None = None
    """Cores outside the setting that it ran on; None where there were none."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A stretch of the run, in seconds since its start."""

    start_s: float
    end_s: float


@dataclass(frozen=True, kw_only=True)
class OverheadMeasurement:
    """Step time with the sampler over step time without it, measured in the run itself."""

    verdict: OverheadVerdict | None
    reason: str | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = 0.95
    observations: int | None = 0
    method: str | None = None
    blocks: tuple[Block, ...] = ()
    """The pauses: no samples exist there."""


@dataclass(frozen=True, kw_only=True)
class LayerTracing:
    """How layers were traced: share of the time allowed, windows saved, seconds they cost."""

    budget: float | None = None
    windows: int | None = None
    cost_s: float | None = None
    failure: str | None = None


@dataclass(frozen=True)
class RecordedModel(ModelBuilt):
    """The model as built, and what a reader should know of how its steps were seen."""

    probe_failure: str | None = None
    """Why steps were no longer seen, where that was so."""
    step_marks: Literal["optimizer", "backward"] | None = None
    """What ended the steps of a program; None where nothing but an optimizer ever did."""
    probe_notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CheckpointOrigin:
    """The checkpoint that a run began from; `epoch` and `step` are behind it."""

    run_id: str | None = None
    path: str | None = None
    framework: str | None = None
    epoch: int | None = None
    step: int | None = None


@dataclass(frozen=True, kw_only=True)
class SavedCheckpoint:
    """A checkpoint in the run directory; seconds that saving took."""

    file: str
    epoch: int | None = None
    step: int | None = None
    bytes: int | None = None
    cost_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class RecordedMark:
    """A moment that somebody marked while the run went on, in seconds since its start."""

    t_s: float
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class StudyCell:
    """The cell of a study that a run realises."""

    study: str
    cell: str
    """Its identity: a digest of all that changes the result."""
    repetition: int = 0
    factors: Mapping[str, Any] = field(default_factory=dict)
    """The level of each factor, as its file has it."""


@dataclass(frozen=True, kw_only=True)
class GivenFigure:
    """A figure that somebody states of a whole run, in the unit of its name; not computed here."""

    value: float
    deviation: float | None = None
    """As stated; of what, the source says. None where it states none."""
    derived: bool = False
    """Worked out at the import from other figures of the same source."""


@dataclass(frozen=True, kw_only=True)
class Imported:
    """Where a run comes from that trainload did not measure."""

    kind: str
    """What sort of file, as `trainload import` names it."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Name of each file without its folders, and the SHA-256 of its bytes."""
    place: str | None = None
    """Which part of the file is this run, such as `line 3`; None where it is the whole."""
    at: str | None = None
    """When it was imported, ISO 8601, UTC; when it ran is `created`, where that is known."""
    figures: Mapping[str, GivenFigure] = field(default_factory=dict)
    """Stated of the run as a whole, by metric: there are no steps or samples behind them."""
    raw: tuple[str, ...] = ()
    """Columns or figures kept as they stood, since nothing tells their unit."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What else the source says of the run, in its own words."""


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A phase in seconds since the run's start; `end_s` is None where it never ended."""

    name: str
    start_s: float
    end_s: float | None = None
    detail: str | None = None
    """Of what, and why, where that was told."""
