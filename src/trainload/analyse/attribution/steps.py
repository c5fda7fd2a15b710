"""Where the steps of a window begin and end on the host's clock.

Marks first, then the ranges of torch's own schedule, then the whole window as one step.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from trainload.analyse.attribution.events import Role, Window

StepSource = Literal["marks", "ProfilerStep ranges", "the whole trace"]


@dataclass(frozen=True, kw_only=True)
class HostStep:
    """One step as the host saw it, in nanoseconds of the trace's clock."""

    step: int
    begin_ns: int
    end_ns: int


def find_steps(window: Window) -> tuple[StepSource, list[HostStep]]:
    """The window's steps in order of time, and the kind of event they were read from."""
    marks = _named(window, Role.MARK)
    if len(marks) >= 2:
        # A number left out means a mark that was lost: two steps must not pass for one. A number
        # that comes twice has something else than a step between its marks.
        return "marks", [
            HostStep(step=after[2], begin_ns=before[0], end_ns=after[0])
            for before, after in pairwise(marks)
            if after[2] - before[2] == 1
        ]
    ranges = _named(window, Role.PROFILER_STEP)
    if ranges:
        return "ProfilerStep ranges", [
            HostStep(step=number, begin_ns=start, end_ns=end) for start, end, number in ranges
        ]
    host, device = window.host, window.device
    starts = [min(column) for column in (host.start_ns, device.start_ns) if column]
    ends = [max(column) for column in (host.end_ns, device.end_ns) if column]
    if not starts:
        return "the whole trace", []
    return "the whole trace", [HostStep(step=0, begin_ns=min(starts), end_ns=max(ends))]


def find_marks(window: Window) -> dict[int, int]:
    """When each step's mark stands in the trace; a number that comes twice is left out."""
    found: dict[int, list[int]] = {}
    for start, _, number in _named(window, Role.MARK):
        found.setdefault(number, []).append(start)
    return {number: starts[0] for number, starts in found.items() if len(starts) == 1}


def _named(window: Window, role: Role) -> list[tuple[int, int, int]]:
    """Start, end and number of the events of a role, by time."""
    host = window.host
    found: list[tuple[int, int, int]] = []
    for i, name in enumerate(host.name):
        if window.roles[name] is role:
            digits = window.names[name].replace("#", ":").rpartition(":")[2]
            number = int(digits) if digits.isdecimal() and len(digits) < 16 else len(found)
            found.append((host.start_ns[i], host.end_ns[i], number))
    return sorted(found)
