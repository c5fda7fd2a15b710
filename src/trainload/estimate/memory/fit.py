"""Whether a training step fits a device: held, reserved and whole memory, with ranges and a chance.

Computed from an op trace through the simulated allocator; measures nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trainload.estimate.memory.op_trace import Event
from trainload.estimate.memory.replay import (
    CurvePoint,
    PeakContents,
    TemporariesOf,
    needed_bytes,
    remembered,
    replay_trace,
)

Verdict = Literal["fits", "does not fit", "too close to call", "not known"]

LEAST_CHANCE = 0.01
"""Of running out, up to which a step is said to fit, and from one less which it is said not to."""

_DEVIATIONS = tuple(at / 10 for at in range(-30, 31))
"""Where the sum over an unknown capacity and overhead is taken, in standard deviations."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """A number of bytes and the range that holds the truth in 19 of 20 cases."""

    value_bytes: int
    low_bytes: int
    high_bytes: int

    def __add__(self, other: Span) -> Span:
        """Both, each end with its own."""
        return Span(
            value_bytes=self.value_bytes + other.value_bytes,
            low_bytes=self.low_bytes + other.low_bytes,
            high_bytes=self.high_bytes + other.high_bytes,
        )

    def from_at_least(self, other: Span) -> Span:
        """With its low end raised to that of another, and no further than its own value."""
        low = min(max(self.low_bytes, other.low_bytes), self.value_bytes)
        return Span(value_bytes=self.value_bytes, low_bytes=low, high_bytes=self.high_bytes)

    @property
    def below_bytes(self) -> int:
        """From the value down to the low end."""
        return self.value_bytes - self.low_bytes

    @property
    def above_bytes(self) -> int:
        """From the value up to the high end."""
        return self.high_bytes - self.value_bytes


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How far estimates lie from the truth: standard deviations of log(truth / estimate)."""

    allocated: float
    reserved: float
    needed: float
    """Of the memory from which on the step goes through: it depends less on chance, since the
    allocator gives back what it caches."""
    source: str

    def around(self, value_bytes: int, deviation: float) -> Span:
        """The range of 19 in 20."""
        factor = math.exp(1.96 * deviation)
        return Span(
            value_bytes=value_bytes,
            low_bytes=int(value_bytes / factor),
            high_bytes=math.ceil(value_bytes * factor),
        )


@dataclass(frozen=True, kw_only=True)
class MemoryRoom:
    """What a device offers a training process."""

    capacity: Span | None
    """Of the device for all processes; None where no device is named or it states none."""
    capacity_source: str | None
    overhead: Span
    """What the process takes beside the allocator: context, kernels, libraries."""
    overhead_source: str
    spread: Spread


@dataclass(frozen=True, kw_only=True)
class MemoryEstimate:
    """The memory of one training step."""

    allocated_bytes: Span
    """Most that tensors and workspaces hold at once."""
    reserved_bytes: Span
    """Most that the allocator takes from the device where nothing holds it back."""
    device_bytes: Span
    """Reserved, and what the process takes beside it."""
    needed_bytes: Span
    """The least device memory with which the step still goes through: cached blocks are given
    back when the device is full."""
    least_bytes: int
    """The same without what the process takes beside the allocator."""
    room: MemoryRoom
    verdict: Verdict
    running_out: float | None
    """The chance that the step runs out of the device's memory; None without a capacity."""
    peak: PeakContents
    curve: tuple[CurvePoint, ...]
    at_most: bool = False
    """Whether less may do: then it may be said to fit, and never that it does not."""

    @property
    def capacity_bytes(self) -> int | None:
        """Of the device; None where it is not known."""
        return None if self.room.capacity is None else self.room.capacity.value_bytes

    @property
    def fits(self) -> bool | None:
        """The verdict as yes or no; None where it is neither."""
        return {"fits": True, "does not fit": False}.get(self.verdict)

    def would_fit(self, needed: int) -> bool | None:
        """Whether so much is within the capacity; None without one."""
        return None if self.capacity_bytes is None else needed <= self.capacity_bytes


def estimate_memory(
    events: Sequence[Event],
    temporaries_of: TemporariesOf,
    room: MemoryRoom,
    *,
    at_most: bool = False,
) -> MemoryEstimate:
    """The memory of the traced step, and whether that fits the room.

    With `at_most` sizes in the step are the largest that they can be.
    """
    inside = remembered(temporaries_of)
    free = replay_trace(events, inside)
    least = needed_bytes(free)
    spread = room.spread
    allocated = spread.around(free.peak_allocated_bytes, spread.allocated)
    # No device reserves less than is held.
    reserved = spread.around(free.peak_reserved_bytes, spread.reserved).from_at_least(allocated)
    needed = spread.around(least, spread.needed).from_at_least(allocated)
    chance = chance_of_running_out(least, room)
    if at_most and judge(chance) != "fits":
        chance = None
    return MemoryEstimate(
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        device_bytes=reserved + room.overhead,
        needed_bytes=needed + room.overhead,
        least_bytes=least,
        room=room,
        verdict=judge(chance),
        running_out=chance,
        peak=free.peak,
        curve=free.curve,
        at_most=at_most,
    )


def judge(chance: float | None) -> Verdict:
    """The verdict for a chance of running out."""
    if chance is None:
        return "not known"
    if chance <= LEAST_CHANCE:
        return "fits"
    return "does not fit" if chance >= 1 - LEAST_CHANCE else "too close to call"


def chance_of_running_out(least_bytes: int, room: MemoryRoom) -> float | None:
    """That a log-normally spread need passes what capacity and overhead leave; None without one.

    Capacity and overhead are normal over their ranges, each side with its own, cut at three
    deviations; an end of a range is two of them away.
    """
    if room.capacity is None:
        return None
    offered, taken = room.capacity, room.overhead
    left = offered.value_bytes - taken.value_bytes
    less = math.hypot(offered.below_bytes, taken.above_bytes) / 2
    more = math.hypot(offered.above_bytes, taken.below_bytes) / 2
    weights = chances = 0.0
    for at in _DEVIATIONS if less or more else (0.0,):
        weight = math.exp(-at * at / 2)
        weights += weight
        free = left + at * (less if at < 0 else more)
        chances += weight * _chance_above(least_bytes, free, room.spread.needed)
    return chances / weights


def most_that_fits(room: MemoryRoom) -> int | None:
    """The largest need of the allocator that is still said to fit; None without a capacity."""
    if room.capacity is None:
        return None
    low, high = 0, room.capacity.high_bytes
    while high - low > 1 << 16:
        middle = (low + high) // 2
        chance = chance_of_running_out(middle, room)
        assert chance is not None
        low, high = (middle, high) if chance <= LEAST_CHANCE else (low, middle)
    return low


def _chance_above(need_bytes: int, left_bytes: float, deviation: float) -> float:
    if left_bytes <= 0:
        return 1.0
    if need_bytes <= 0:
        return 0.0
    distance = math.log(left_bytes / need_bytes)
    if deviation <= 0:
        return 0.0 if distance >= 0 else 1.0
    return 0.5 * math.erfc(distance / deviation / math.sqrt(2))
