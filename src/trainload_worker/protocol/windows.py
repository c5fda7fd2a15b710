"""What a worker says of steps that it traces: windows, their layers, the host beside them.

Times are the monotonic clock's, in seconds where no name says otherwise. Opens no file.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Optional, Tuple

from trainload_worker.protocol.checked import Annotated, Bounds

Index = Annotated[int, Bounds(low=0, high=2**62)]


@dataclass(frozen=True)
class WindowSaved:
    """A few traced steps stand in a file of the run directory."""

    index: Index
    file: str
    begin_s: float
    end_s: float
    cost_s: float
    purpose: Optional[str] = None
    device: Optional[str] = None
    first_step: Optional[int] = None
    last_step: Optional[int] = None
    disturbed: Tuple[int, ...] = ()
    """Steps before and after that pay for it."""
    KIND: ClassVar[str] = "window"


@dataclass(frozen=True)
class HostStacks:
    """What Python the training thread was in during a window; times of the monotonic clock."""

    index: Index
    """Of the window."""
    note: Optional[str] = None
    """Why nothing, or not all, was sampled."""
    period_ns: int = 0
    taken: int = 0
    """How often a stack was read; between two of them it may stand for several samples."""
    own_s: float = 0.0
    """Time that the reading took in the training thread."""
    waited_s: Optional[float] = None
    """Time in which that thread could run but had no core; null where the system does not tell."""
    first_ns: int = 0
    """When the first sample was due; each later one a whole number of periods after it."""
    frames: Tuple[Any, ...] = ()
    """Package, file, function, line."""
    stacks: Tuple[Any, ...] = ()
    """Positions among the frames, innermost first."""
    samples: Tuple[Any, ...] = ()
    """First sample, how many in a row, position among the stacks."""
    marks: Tuple[Any, ...] = ()
    """Step, and when its mark was put into the trace: not before, not after."""
    KIND: ClassVar[str] = "host_stacks"


@dataclass(frozen=True)
class ModuleTable:
    """The model's modules, as `analyse` reads them from the trace's header."""

    modules: Tuple[Any, ...]
    compiled: bool = False
    KIND: ClassVar[str] = "modules"


@dataclass(frozen=True)
class CompiledGraph:
    """What torch's compiler made of a model's code: its kernels in order, and whose they are."""

    key: str
    """As the trace names the graph's calls."""
    calls: Tuple[Any, ...]
    """Of each its name and a list of root, path and share of the modules in it."""
    KIND: ClassVar[str] = "compiled"


@dataclass(frozen=True)
class LayersFailed:
    """Layers are no longer traced; the training goes on."""

    reason: str
    t_s: Optional[float] = None
    state: Literal["failed"] = "failed"
    KIND: ClassVar[str] = "layers"
