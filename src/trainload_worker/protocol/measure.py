"""What is asked of a worker that measures a machine's limits, and what it says of them.

Kinds of events; `events` takes them into its union. The programs are named in `PROGRAMS`.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Mapping, Optional, Tuple

LIMITS: Tuple[str, ...] = (
    "memory-bandwidth",
    "cache-bandwidth",
    "memory-latency",
    "tlb-reach",
    "drive-read",
    "matrix-rate",
    "device-bandwidth",
)
"""Programs that tell what a machine reaches at best, whatever is trained on it."""

PROGRAMS: Tuple[str, ...] = (
    *LIMITS,
    "stalled-load",
    "training-threads",
    "trainings-at-once",
    "same-results",
    "huge-page-training",
    "batch-time",
    "data-working-set",
    "forward-time",
    "memorise",
    "training-memory",
    "loader-need",
    "resident-data",
    "largest-batch",
)
"""All of them, in the order in which they run."""


COUNTING: Tuple[str, ...] = ("same-results", "memorise", "training-memory", "largest-batch")
"""Programs that count instead of timing: others' load does not change what they find."""


@dataclass(frozen=True)
class Reading:
    """Samples of one quantity under one condition."""

    at: Mapping[str, str]
    """What was varied, and to which level."""
    values: Tuple[float, ...]
    """In the order in which they were taken, one a round."""


@dataclass(frozen=True)
class Measured:
    """What one program found."""

    program: str
    unit: str
    readings: Tuple[Reading, ...]
    method: str = ""
    """How it was measured, in words."""
    notes: Tuple[str, ...] = ()
    others_fraction: Optional[float] = None
    """Of the cores, what others took meanwhile; None where nothing told it."""
    KIND: ClassVar[str] = "measured"


@dataclass(frozen=True)
class MeasureLack:
    """A program that could not measure here, and why."""

    program: str
    reason: str
    KIND: ClassVar[str] = "measure_lack"


@dataclass(frozen=True)
class MachineFacts:
    """What the system says of itself: caches, sockets, drives, page sizes; as words."""

    facts: Mapping[str, str] = field(default_factory=dict)
    KIND: ClassVar[str] = "machine_facts"
