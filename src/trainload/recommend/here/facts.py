"""What suggestions rest on, and what they are: values alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from trainload.recommend.here.reach import Reach
    from trainload.recommend.types import Plan

Topic = Literal[
    "threads",
    "core set",
    "loader workers",
    "precision",
    "batch",
    "huge pages",
    "allocator",
    "swap",
    "disk",
]
Verdict = Literal["confirmed", "withdrawn", "not decided"]


@dataclass(frozen=True, kw_only=True)
class PastRun:
    """What a run of the same training measured; None where it did not."""

    name: str
    wait_fraction: float | None = None
    """Share of the training that its steps waited for their rows."""
    quota_fraction: float | None = None
    """Share for which the CPU quota held it back."""
    swapped_bytes: float | None = None
    paging_fraction: float | None = None
    """Of its processor time, that the system took to give it memory; None also where it gave
    little."""
    paging_read: bool = False
    """Whether its page faults were counted."""


@dataclass(frozen=True, kw_only=True)
class HereFacts:
    """What is known of this machine and of the step on it."""

    allowed_cores: int
    physical_cores: int | None
    logical_cores: int
    quota_cores: float | None
    clusters: Mapping[str, int]
    """Cores of each cluster, where cores are unlike."""
    memory_bytes: int | None
    swap_bytes: int | None
    huge_pages: str | None
    c_library: str | None
    """`glibc`, whose allocator can be told to keep memory; None where it is another."""
    bf16_units: bool | None
    disk_free_bytes: int | None
    disk_rotates: bool | None
    needed_bytes: int | None
    """Of the host's memory, by the step on the processor; None where it is not known."""
    batch_size: int | None
    """None where batch, precision and loader are the code's own."""
    accelerator: str | None = None
    """How a setting names the accelerator that a run takes, such as `gpu0`."""
    ways: tuple[Plan, ...] = ()
    """Predicted on what a run takes here, with the batch asked for and larger ones."""
    past: PastRun | None = None
    reach: Reach | None = None
    """What `trainload detect --measure` kept of this machine."""

    @property
    def default_threads(self) -> int:
        """Those of a run that names none."""
        quota = self.quota_cores
        if quota is None:
            return self.allowed_cores
        return max(1, min(self.allowed_cores, -int(-quota // 1)))


@dataclass(frozen=True, kw_only=True)
class Level:
    """One of the two ways that a trial compares."""

    label: str
    sets: Mapping[str, Any] = field(default_factory=dict)
    """Keys of a run that it sets, as a study's file writes them."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """How a suggestion can be measured from outside: the default against another way."""

    factor: str
    base: Level
    """What a run does that names nothing."""
    other: Level
    keeps: bool
    """Whether the suggestion is to stay with the base, so that the other way should be no better"""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What a trial said of a suggestion."""

    verdict: Verdict
    gain: float | None
    """Share of the time that the suggestion saves against the way beside it; below 0 it costs."""
    low: float | None
    high: float | None
    runs: int
    """Runs that count, of both ways."""
    reason: str


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """One thing to set, or to leave as it is."""

    topic: Topic
    advice: str
    option: str | None
    """The words that set it in `trainload run`; None where the system or the code does."""
    gain: float | None
    """Share of the time that it saves; None where it is not known."""
    basis: str
    """What the gain rests on, or why nothing is known."""
    trial: Trial | None = None
    not_tried: str | None = None
    """Why no trial from outside can tell; None where one can."""
    tried: Tried | None = None
