"""Shares a sweep's time among families of operations; imports no framework.

Each family in each number type is a lane with its cases in an order such that, wherever the time
ends, those that were measured lie evenly between the smallest and the largest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Iterable, List, Mapping, Sequence

from trainload_worker.frameworks.torch.sweep.cases import FAMILIES, Case

_LARGE_S = 1e-4


@dataclass
class Pace:
    """What the device was first seen to reach: how long a case might take is guessed from it."""

    flop_per_s: float
    bytes_per_s: float

    def guess_s(self, case: Case) -> float:
        """Seconds of one call if it ran at that pace."""
        return max(case.flops / self.flop_per_s, case.bytes / self.bytes_per_s)


@dataclass
class Lane:
    """The cases of a family in one number type, and the time they have had."""

    family: str
    dtype: str
    share: float
    waiting: List[Case]
    spent_s: float = 0.0
    ratios: List[float] = field(default_factory=list)
    """How many times longer than guessed its larger cases took."""
    refused: int = 0
    measured: List[int] = field(default_factory=list)
    """Numbers of its points."""

    def turn(self) -> float:
        """Time had against its share: the lane with the least is next."""
        return self.spent_s / self.share

    def learn(self, guess_s: float, seconds: float) -> None:
        """Takes what a case took; the small ones tell of launches alone."""
        if seconds > _LARGE_S:
            self.ratios.append(seconds / guess_s)

    @property
    def slower(self) -> float:
        """The median of what was learned, which one hiccup does not move; at first 1."""
        return median(self.ratios) if self.ratios else 1.0


def make_lanes(cases: Iterable[Case], shares: Mapping[str, float]) -> List[Lane]:
    """A lane for each family and number type; `shares` weighs number types."""
    lanes: dict[tuple[str, str], Lane] = {}
    for case in cases:
        key = (case.family, case.dtype)
        if key not in lanes:
            share = FAMILIES[case.family] * shares.get(case.dtype, 1.0)
            lanes[key] = Lane(case.family, case.dtype, share, [])
        lanes[key].waiting.append(case)
    for lane in lanes.values():
        lane.waiting = spread_evenly(sorted(lane.waiting, key=lambda one: one.flops + one.bytes))
    return list(lanes.values())


def spread_evenly(ordered: Sequence[Case]) -> List[Case]:
    """In the order of halving: middle, quarters, eighths, …; the ends stand early."""
    count = len(ordered)
    if count < 3:
        return list(ordered)
    taken = [count // 2, 0, count - 1]
    seen = set(taken)
    pieces = 2
    while len(seen) < count:
        for number in range(pieces):
            at = (2 * number + 1) * count // (2 * pieces)
            if at not in seen:
                seen.add(at)
                taken.append(at)
        pieces *= 2
    return [ordered[at] for at in taken]


def next_case(
    lanes: Sequence[Lane], pace: Pace, *, longest_s: float, most_bytes: float
) -> tuple[Lane, Case] | None:
    """The case whose turn it is; None where none is left that is short and small enough.

    One that seems too long now waits: what its lane learns may make it short enough.
    """
    for lane in sorted(lanes, key=Lane.turn):
        most_s = longest_s / lane.slower
        for case in lane.waiting:
            if 4 * case.bytes <= most_bytes and pace.guess_s(case) <= most_s:
                lane.waiting.remove(case)
                return lane, case
    return None
