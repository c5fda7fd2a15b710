"""What the host did while no operation ran: its gaps shared out over what was sampled in them.

Counts samples by the gap they were due in; the times themselves come from the partition.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from trainload.analyse.attribution.host_places import TORCHS, TRACING, HostPlace, place_of
from trainload.analyse.attribution.partition import PYTHON, REMAINDER, Part, StepParts
from trainload.analyse.attribution.stacks import WindowStacks
from trainload.analyse.attribution.types import HostPart, HostSampling, HostTime

LEAST_SAMPLES = 3
"""In all gaps outside of every range together, below which they stay unexplained."""
_UPDATING = Part("idle", phase="update", cause="host")
_OPTIMIZERS = frozenset({"optimizer", "compiler", "communication", TRACING})
"""What may run in an optimizer's step for the update itself. A trainer may hand that step the whole
forward and backward pass as a closure: what its Python does there is no update."""
_PARTS: Final[tuple[HostPart, ...]] = ("idle: host", "python")


@dataclass
class _Count:
    """Samples due at a place, and the readings of a stack that told of them."""

    samples: int = 0
    readings: set[tuple[int, int]] = field(default_factory=set)


class HostTimes:
    """Gathers the samples of a trace, window after window."""

    def __init__(self) -> None:
        self._counts: dict[HostPart, dict[HostPlace, _Count]] = {part: {} for part in _PARTS}
        self._updating = self._handed = 0
        self._windows: list[WindowStacks] = []
        self._sampled: set[int] = set()
        self._refusals: dict[str, None] = {}

    def add(
        self, stacks: WindowStacks | None, marks: Mapping[int, int], steps: Sequence[StepParts]
    ) -> None:
        """Count a window's samples; `marks` are its steps' marks on the trace's clock."""
        if stacks is None:
            return
        if stacks.note is not None:
            self._refusals.setdefault(stacks.note)
        places = [place_of(stacks.frames_of(at)) for at in range(len(stacks.stacks))]
        starts = [(step, [start for start, *_ in step.gaps]) for step in steps]
        found = 0
        for at, reading, stack in stacks.due(marks):
            found += 1
            place = places[stack]
            for step, begins in starts:
                if not step.begin_ns <= at < step.end_ns or place is None:
                    continue
                near = bisect_right(begins, at) - 1
                if near >= 0 and at < step.gaps[near][1]:
                    self._count(step.gaps[near][2], place, (stacks.index, reading))
        if found:
            self._windows.append(stacks)
            self._sampled.add(stacks.index)

    def _count(self, part: Part, place: HostPlace, reading: tuple[int, int]) -> None:
        handed = part == _UPDATING and place.what not in _OPTIMIZERS
        self._updating += part == _UPDATING
        self._handed += handed
        counts = self._counts["python" if part == REMAINDER or handed else "idle: host"]
        count = counts.setdefault(place, _Count())
        count.samples += 1
        count.readings.add(reading)

    def name_remainder(self, steps: Iterable[tuple[int, StepParts]]) -> None:
        """Turn what samples say is Python between torch's calls into that, in sampled windows.

        That is the remainder, and of the gaps in an optimizer's step the share that a closure
        has, by its samples.
        """
        if sum(len(count.readings) for count in self._counts["python"].values()) < LEAST_SAMPLES:
            # Too few to name anything by: what they were counted for stays as it is.
            self._counts["python"].clear()
            return
        for window, parts in steps:
            if window not in self._sampled:
                continue
            times = parts.parts
            if REMAINDER in times:
                parts.add(PYTHON, times.pop(REMAINDER))
            if self._handed and _UPDATING in times:
                moved = times[_UPDATING] * self._handed // self._updating
                times[_UPDATING] -= moved
                parts.add(PYTHON, moved)

    def times(self, parts_s: Mapping[str, float]) -> tuple[HostTime, ...]:
        """The host's two parts of a step by place, longest first; each sums to its part."""
        found = []
        for part in _PARTS:
            counts, time_s = self._counts[part], parts_s.get(part, 0.0)
            whole = sum(count.samples for count in counts.values())
            if not time_s:
                continue
            found += [
                HostTime(
                    part=part,
                    samples=len(count.readings),
                    time_s=time_s * count.samples / whole,
                    **place._asdict(),
                )
                for place, count in counts.items()
            ]
        return tuple(sorted(found, key=lambda one: -one.time_s))

    def sampling(self) -> HostSampling | None:
        """How it was sampled; None where nothing was tried."""
        if not self._windows and not self._refusals:
            return None
        taken = sum(window.taken for window in self._windows)
        length_s = sum(window.length_ns for window in self._windows) / 1e9
        return HostSampling(
            windows=len(self._windows),
            taken=taken,
            rate_hz=taken / length_s if length_s > 0 else None,
            period_s=median(w.period_ns for w in self._windows) / 1e9 if self._windows else None,
            waited_fraction=_waited(self._windows, length_s),
            own_s=sum(window.own_s for window in self._windows) / taken if taken else None,
            refusals=tuple(self._refusals),
        )


def _waited(windows: Sequence[WindowStacks], length_s: float) -> float | None:
    """Share of the windows that the thread waited for a core; None where one does not tell."""
    waited = [window.waited_s for window in windows]
    known = [time_s for time_s in waited if time_s is not None]
    if length_s <= 0 or len(known) < len(waited):
        return None
    return min(sum(known) / length_s, 1.0)


def others_of(times: Iterable[HostTime]) -> tuple[HostTime, ...]:
    """Python between torch's calls that is neither torch's own nor of the tracing."""
    python = (one for one in times if one.part == "python")
    return tuple(one for one in python if one.what != TRACING and not is_torchs(one))


def is_torchs(time: HostTime) -> bool:
    """Whether it is torch on its way to an operation; its loader, logs and files are not."""
    return time.package == "torch" and time.what in TORCHS


def host_groups(times: Iterable[HostTime]) -> list[tuple[str, str, tuple[HostTime, ...]]]:
    """The times by what they were for and package, longest group first, longest place first."""
    groups: dict[tuple[str, str], list[HostTime]] = {}
    for one in times:
        groups.setdefault((one.what, one.package), []).append(one)
    ordered = sorted(groups.items(), key=lambda item: -sum(one.time_s for one in item[1]))
    return [(what, package, tuple(found)) for (what, package), found in ordered]
