"""What is asked of a worker that measures a device's kernels, and what it says of them.

Kinds of events and a part of the specification; `events` and `spec` take them into their unions.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Mapping, Optional, Tuple

Metric = Optional[float]


@dataclass(frozen=True)
class SweepBegun:
    """The device as the framework found it, and how many cases there are to choose from."""

    device: str
    """Its name, as the framework gives it."""
    dtypes: Tuple[str, ...] = ()
    cases: int = 0
    method: str = ""
    """How times are taken, in words."""
    KIND: ClassVar[str] = "sweep_begun"


@dataclass(frozen=True)
class SweepIdle:
    """The device had nothing to do between these times of the monotonic clock."""

    begin_s: float
    end_s: float
    KIND: ClassVar[str] = "sweep_idle"


@dataclass(frozen=True)
class SweepPoint:
    """One operation was timed."""

    operation: str
    dtype: str
    sizes: Mapping[str, int]
    flops: float
    bytes: float
    seconds: float
    """Of one call, median."""
    spread: Metric = None
    """Half the range between the quartiles, as a share of the median."""
    KIND: ClassVar[str] = "sweep_point"


@dataclass(frozen=True)
class SweepHeld:
    """A timed operation was repeated for a while, so that its power can be read."""

    point: int
    """Which of the points, from 0."""
    begin_s: float
    end_s: float
    seconds: float
    """Of one call while it was repeated."""
    KIND: ClassVar[str] = "sweep_held"


@dataclass(frozen=True)
class SweepDispatch:
    """What the host takes to hand over work, by kind of work."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    KIND: ClassVar[str] = "sweep_dispatch"


@dataclass(frozen=True)
class SweepLack:
    """Something that could not be measured, and why."""

    what: str
    reason: str = ""
    KIND: ClassVar[str] = "sweep_lack"
