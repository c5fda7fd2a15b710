"""What attribution says of a run: plain frozen values, each time in seconds of one step.

Every figure is measured in the traced windows and scaled to the time of untraced steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from trainload.analyse.attribution.lasting import LastingCost
from trainload.analyse.utilisation import Utilisation

if TYPE_CHECKING:
    import polars as pl

Phase = Literal["forward", "backward", "update"]
Kind = Literal[
    "layer", "loss", "input", "copy", "communication", "script", "idle", "python", "remainder"
]
"""To what an instant of a step belongs.

layer: an operation of a layer, in one of its phases. loss: one of the loss, forward or backward.
input: waiting for the data loader. copy: between host and device or within one. communication:
between processes. script: an operation of the script outside layers, loss and optimizer. idle: the
device (on a CPU: the operations) stood still, `cause` says why. python: outside of all these, at
places that samples of the host's stack name. remainder: nobody knows.
"""
Cause = Literal["host", "input", "synchronise"]
"""host: the host was preparing work, of the row's layer and phase where those are given."""

ROW_COLUMNS = (
    "rank", "window", "step", "kind", "root", "layer", "phase", "cause", "time_s", "traced_s",
    "calls",
)  # fmt: skip
"""Columns of `layers.parquet`: one row for each part of each traced step.

`traced_s` is the time as traced, `time_s` corrected to the untraced steps; over the rows of one
step either sums to that step's time exactly (to the nanosecond). `calls`: operations or kernels
counted into the row; null where that has no meaning.
"""


def row_schema() -> dict[str, type[pl.DataType]]:
    """The types of ROW_COLUMNS."""
    import polars as pl

    kinds = (pl.Int64, pl.Int64, pl.Int64, *(pl.String,) * 5, pl.Float64, pl.Float64, pl.Int64)
    return dict(zip(ROW_COLUMNS, kinds, strict=True))


@dataclass(frozen=True, kw_only=True)
class LayerMemory:
    """Bytes that a layer itself answers for, its children not included; None: not observed."""

    parameters: int
    """How many, not bytes."""
    parameter_bytes: int
    gradient_bytes: int | None
    optimizer_bytes: int | None
    activation_bytes: int | None
    """Allocated in its forward pass and still held when its step's backward pass began."""
    peak_bytes: int | None
    """Highest total the allocator reached while the layer ran, forward or backward."""


@dataclass(frozen=True, kw_only=True)
class EnergyShare:
    """Joules of one step, by time and mean power, and the range they may lie in."""

    energy_j: float
    low_j: float
    high_j: float


@dataclass(frozen=True, kw_only=True)
class LayerNode:
    """One module of the tree; times are means over the traced steps, corrected."""

    root: str
    """Label of the model it belongs to: its class, numbered where two share it."""
    layer: str
    """Path inside the model, such as `layer1.0.conv1`; empty for the model itself."""
    class_name: str | None
    depth: int
    """0 for the model itself."""
    forward_s: float
    backward_s: float
    update_s: float
    idle_s: float
    """Device idle while the host prepared this layer, in any phase."""
    inclusive_s: float
    """All four, of the layer and everything below it."""
    calls: float
    """Operations or kernels in one step, itself alone."""
    memory: LayerMemory | None
    energy: EnergyShare | None
    """Of the inclusive time; None without a meter of energy or power."""

    @property
    def exclusive_s(self) -> float:
        """All four of the layer itself."""
        return self.forward_s + self.backward_s + self.update_s + self.idle_s


@dataclass(frozen=True, kw_only=True)
class WindowCost:
    """What tracing cost this run."""

    windows: int
    cost_s: float
    """Time that training took longer because of the windows."""
    fraction: float | None
    """Of the training time without them, what stays included; None where that is not known."""
    budget: float | None
    """Fraction that was asked for; None for a trace from elsewhere."""
    lasting: LastingCost | None = None
    """Steps after the last window against those before the first; None with too few of them."""


HostPart = Literal["idle: host", "python"]


@dataclass(frozen=True, kw_only=True)
class HostTime:
    """Seconds of a step that the training thread spent at one place of the source.

    Only while no operation ran (on a device: while it stood idle).
    """

    part: HostPart
    """Of which part of the step; over all places they sum to that part."""
    what: str
    """Such as `progress bar`, `logging`, `loader`, `optimizer`, `script`; else the package."""
    package: str
    file: str
    function: str
    line: int
    time_s: float
    samples: int
    """Stacks on which this rests; one that stood still for long has more time than another."""

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, kw_only=True)
class HostSampling:
    """How the host's stacks were sampled."""

    windows: int
    taken: int
    """Stacks that were read."""
    rate_hz: float | None
    """Reached: a stack is read once for a call into C, however long that takes."""
    period_s: float | None
    """Of the timer, median over the windows."""
    own_s: float | None
    """Mean time of reading one stack, in the training thread; the signal itself comes on top."""
    waited_fraction: float | None
    """Of the sampled time, in which the training thread could run but had no core; None where the
    system does not tell. It stands at the lines that the thread was stopped at."""
    refusals: tuple[str, ...]
    """Why nothing was sampled in some windows."""


Loader = Literal["workers", "main"]
UpdateForm = Literal["fused", "foreach", "single"]


@dataclass(frozen=True, kw_only=True)
class WindowTraits:
    """Shares of a window's traced steps, and counts a step."""

    copies_fraction: float = 0.0
    """On the host: copying tensors, changes of layout and type among it."""
    gradientless_fraction: float = 0.0
    """Forward passes of models that keep nothing for a backward pass: validation, frozen models."""
    full_precision_fraction: float = 0.0
    """Kernels of matrix products and convolutions in float32."""


@dataclass(frozen=True, kw_only=True)
class Traits:
    """How a training is set up, as far as its operations tell; None: they do not."""

    loader: Loader | None = None
    """Whether torch's loader read in workers or in the training's own process."""
    compiled: bool = False
    optimizer: str | None = None
    """Its class."""
    update: UpdateForm | None = None
    """fused: one operation for all tensors; foreach: one of each kind; single: some for each."""
    parameter_bytes: float | None = None
    """Mean bytes of one parameter: 4 for float32, 8 for float64."""
    windows: Mapping[int, WindowTraits] | None = None


@dataclass(frozen=True, kw_only=True)
class RankLayers:
    """The attribution of one process."""

    rank: int
    device: str
    """`cpu`, `cuda:0`, …: whose time is partitioned."""
    step_s: float
    """Mean time of an untraced step, to which all times are corrected (else of a traced one)."""
    traced_step_s: float
    corrected: bool
    """False where no untraced step is known (a trace from elsewhere): times are as traced."""
    explained_fraction: float
    """1 less the remainder's share of the step."""
    parts: Mapping[str, float]
    """Seconds of a step by part, summing to `step_s`: `forward`, `backward`, `update` (of layers),
    `loss`, `input`, `copy`, `communication`, `script`, `idle: host`, `idle: input`,
    `idle: synchronise`, `python`, `remainder`. Parts of no time are left out."""
    hidden_communication_s: float
    """Communication that ran beside computing and so cost no time of its own."""
    busy_s: float
    """Time of a traced step in which the device ran at least one kernel (CPU: an operation)."""
    nodes: tuple[LayerNode, ...]
    """The module trees in order of the model, parents before children."""
    rows: pl.DataFrame
    """ROW_COLUMNS of this rank."""
    cost: WindowCost
    notes: tuple[str, ...]
    """What a reader should know: compiled regions, steps left out, a trace cut short…"""
    traits: Traits = field(default_factory=Traits)
    flop: Mapping[str, float] | None = None
    """Floating-point operations of a step by number type; None where no shapes were recorded."""
    host: tuple[HostTime, ...] = ()
    """The parts `idle: host` and `python` by place of the source, longest first; empty where the
    host's stacks were not sampled."""
    sampling: HostSampling | None = None


Topic = Literal[
    "swapping", "cpu_quota", "throttling", "contention",
    "input_wait", "input_workers", "host_bound", "synchronising", "copies", "communication",
    "straggler", "update_unfused", "python", "script_operations", "gradientless", "precision",
    "page_faults", "recompilation", "few_threads", "memory_short",
]  # fmt: skip
"""The first four are the machine's, and come first: what else is measured depends on them."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """One thing to do next and what that should gain; the words are the report's."""

    topic: Topic
    fraction: float
    """Share of the step (memory_short: of the memory) that the claim rests on."""
    gain_s: float | None = None
    """Seconds a step that following it should gain; None where memory, not time, is short."""
    gain_low_s: float | None = None
    gain_high_s: float | None = None
    """Where the gain should lie: at the least, at the most."""
    subject: str | None = None
    """The layer, rank, device or optimizer it is about, where it is about one."""
    evidence: str | None = None
    """What in the record speaks for it, beside the share."""
    mean_step_s: float | None = None
    """The step that share and gain are of, where it is not the traced one: the mean over the
    training, with what comes now and then."""


@dataclass(frozen=True, kw_only=True)
class RunLayers:
    """The attribution of a run: its processes, and what to do next, most valuable first."""

    ranks: tuple[RankLayers, ...]
    advice: tuple[Advice, ...]
    utilisation: Utilisation | None = None
    """Of the first process; None where no shapes were recorded."""
