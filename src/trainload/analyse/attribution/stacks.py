"""The host's sampled stacks as the worker told them: when each sample was due, and in which frames.

A header may come from anyone's file: what is not of its form is left out, never trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trainload.analyse.attribution._values import printable

MOST_SAMPLES = 1_000_000
"""In one window, beyond which the rest is left out."""
LONGEST_NAME = 300
CLOCKS_APART_NS = 1_000_000
"""By which a mark may stand outside of when it was made before the clocks are taken for wrong."""


class Frame(NamedTuple):
    """A place in the source of something that ran."""

    package: str
    """`script` for the program's own files, `python` for the standard library."""
    file: str
    function: str
    line: int


@dataclass(frozen=True, kw_only=True)
class WindowStacks:
    """The samples of one window; times in nanoseconds of the host's monotonic clock."""

    index: int
    note: str | None = None
    period_ns: int = 0
    taken: int = 0
    own_s: float = 0.0
    waited_s: float | None = None
    first_ns: int = 0
    frames: tuple[Frame, ...] = ()
    stacks: tuple[tuple[int, ...], ...] = ()
    samples: tuple[tuple[int, int, int], ...] = ()
    marks: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """When each step's mark was made: not before, not after."""

    @property
    def length_ns(self) -> int:
        """From the first mark to the last; 0 without two."""
        ends = [after for _, after in self.marks.values()]
        return max(ends) - min(ends) if ends else 0

    def frames_of(self, stack: int) -> tuple[Frame, ...]:
        """The frames of a stack, innermost first."""
        return tuple(self.frames[at] for at in self.stacks[stack])

    def due(self, trace_marks: Mapping[int, int]) -> Iterator[tuple[int, int, int]]:
        """Time on the trace's clock, number of the reading, and stack, of each sample, in order.

        Marks of the same step tie the two clocks; nothing where they are missing or disagree.
        """
        ahead = _ahead_ns(self.marks, trace_marks)
        if ahead is None:
            return
        left = MOST_SAMPLES
        for reading, (first, count, stack) in enumerate(self.samples):
            for number in range(first, first + min(count, left)):
                yield self.first_ns + number * self.period_ns + ahead, reading, stack
            left -= min(count, left)


def _ahead_ns(host: Mapping[int, tuple[int, int]], trace: Mapping[int, int]) -> int | None:
    """By how much the trace's clock is ahead of the host's; None where no mark or not all agree.

    A thread may stand still in the middle of a mark: the one noted fastest counts.
    """
    both = [step for step in host if step in trace]
    if not both:
        return None
    best = min(both, key=lambda step: host[step][1] - host[step][0])
    ahead = trace[best] - sum(host[best]) // 2
    for step in both:
        before, after = host[step]
        if not before - CLOCKS_APART_NS <= trace[step] - ahead <= after + CLOCKS_APART_NS:
            return None
    return ahead


def parse_stacks(entries: Sequence[Any]) -> dict[int, WindowStacks]:
    """The windows' samples by window; damaged ones are left out."""
    found = {}
    for entry in entries:
        try:
            stacks = _parse(entry)
        except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError):
            continue
        found[stacks.index] = stacks
    return found


def _parse(entry: Mapping[str, Any]) -> WindowStacks:
    frames = tuple(
        Frame(_name(package), _name(file), _name(function), _count(line))
        for package, file, function, line in entry["frames"]
    )
    stacks = tuple(tuple(_below(at, len(frames)) for at in stack) for stack in entry["stacks"])
    samples = tuple(
        (_count(first), _count(count), _below(stack, len(stacks)))
        for first, count, stack in entry["samples"]
    )
    note, own_s, period_ns = entry.get("note"), entry["own_s"], _count(entry["period_ns"])
    waited_s = entry.get("waited_s")
    if samples and period_ns <= 0:
        raise ValueError
    return WindowStacks(
        index=_count(entry["index"]),
        note=_name(note) if note is not None else None,
        period_ns=period_ns,
        taken=_count(entry["taken"]),
        own_s=min(max(float(own_s), 0.0), 1e9),
        waited_s=None if waited_s is None else min(max(float(waited_s), 0.0), 1e9),
        first_ns=_count(entry["first_ns"]),
        frames=frames,
        stacks=stacks,
        samples=samples,
        marks={
            _count(step): (_count(before), _count(after)) for step, before, after in entry["marks"]
        },
    )


def _name(value: Any) -> str:
    if type(value) is not str:
        raise TypeError
    return printable(value[:LONGEST_NAME])


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 61:
        raise ValueError
    return value


def _below(value: Any, end: int) -> int:
    if _count(value) >= end:
        raise IndexError
    return value  # type: ignore[no-any-return]
