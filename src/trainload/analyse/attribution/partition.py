"""Every instant of a traced step given to exactly one part, in whole nanoseconds.

Works on a window's columns and its host timeline; corrects nothing and names no file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trainload.analyse.attribution.events import Window, Work
from trainload.analyse.attribution.steps import HostStep
from trainload.analyse.attribution.timeline import (
    COMMUNICATION,
    INPUT,
    NOWHERE,
    SCRIPT,
    HostTimeline,
    Mode,
    Owner,
)
from trainload.analyse.attribution.types import Cause, Kind, Phase


class Part(NamedTuple):
    """What an instant of a step belongs to: the key of one row."""

    kind: Kind
    root: str | None = None
    layer: str | None = None
    phase: Phase | None = None
    cause: Cause | None = None


REMAINDER = Part("remainder")
PYTHON = Part("python")
"""Remainder that samples of the host's stack explain."""
COPY = Part("copy")
TALK = Part("communication")


@dataclass(kw_only=True)
class StepParts:
    """One traced step; the parts sum to its length."""

    step: int
    begin_ns: int
    end_ns: int
    parts: dict[Part, int] = field(default_factory=dict)
    calls: dict[Part, int] = field(default_factory=dict)
    busy_ns: int = 0
    """At least one kernel ran (on a CPU: an operation)."""
    hidden_ns: int = 0
    """Communication that ran beside computing."""
    fused_ns: int = 0
    """In operations that a compiler made of several layers' or phases' work."""
    gaps: list[tuple[int, int, Part]] = field(default_factory=list)
    """Start, end and part of each stretch in which the host held the step up, in order of time."""

    @property
    def length_ns(self) -> int:
        """From begin to end."""
        return self.end_ns - self.begin_ns

    def add(self, part: Part, time_ns: int) -> None:
        """Count time into a part."""
        self.parts[part] = self.parts.get(part, 0) + time_ns

    def add_gap(self, part: Part, start_ns: int, end_ns: int) -> None:
        """Note a stretch of the host's own."""
        self.gaps.append((start_ns, end_ns, part))


def partition(
    window: Window, host: HostTimeline, steps: Sequence[HostStep], device: int | None
) -> list[StepParts]:
    """The steps of a window over their parts: by a device's time, on a CPU by operations."""
    if device is None:
        return _partition_cpu(host, steps)
    return _DevicePartition(window, host, device).partition(steps)


def busiest_device(window: Window) -> int | None:
    """The accelerator with the most work in a window; None without any."""
    busy: dict[int, int] = {}
    column = window.device
    for start, end, number in zip(column.start_ns, column.end_ns, column.device, strict=True):
        busy[number] = busy.get(number, 0) + end - start + 1
    return max(busy, key=lambda number: busy[number], default=None)


def part_of(owner: Owner) -> Part:
    """The part of a kernel or operation of an owner."""
    return Part(owner.kind, owner.root, owner.layer, owner.phase)


def idle_of(owner: Owner, cause: Cause) -> Part:
    if cause != "host":
        return Part("idle", cause=cause)
    return Part("idle", owner.root, owner.layer, owner.phase, cause)


def _partition_cpu(host: HostTimeline, steps: Sequence[HostStep]) -> list[StepParts]:
    found = []
    for step in steps:
        parts = StepParts(step=step.step, begin_ns=step.begin_ns, end_ns=step.end_ns)
        found.append(parts)
        asked = host.main, *host.node_threads
        for start, end, state in host.over(step.begin_ns, step.end_ns, asked):
            _add_cpu(parts, host, state, start, end)
        first = bisect_left(host.calls, (step.begin_ns, -1))
        for at, state in host.calls[first : bisect_left(host.calls, (step.end_ns, -1))]:
            part = part_of(host.states[state].owner)
            parts.calls[part] = parts.calls.get(part, 0) + (at >= step.begin_ns)
    return found


def _add_cpu(parts: StepParts, host: HostTimeline, state: int, start: int, end: int) -> None:
    owner, mode = host.states[state]
    talking = overlap_ns(host.asynchronous, start, end)
    if state != NOWHERE and owner == INPUT:
        parts.add(part_of(INPUT), end - start)
        return
    if state != NOWHERE and mode is Mode.OPERATION:
        parts.add(part_of(owner), end - start)
        parts.busy_ns += end - start
        parts.hidden_ns += talking if owner != COMMUNICATION else 0
        return
    if talking:
        parts.add(TALK, talking)
    if end - start > talking:
        part = REMAINDER if state == NOWHERE else idle_of(owner, "host")
        parts.add(part, end - start - talking)
        parts.add_gap(part, start, end)


def overlap_ns(spans: Sequence[tuple[int, int]], start: int, end: int) -> int:
    """How much of a stretch disjoint sorted spans cover."""
    covered = 0
    at = max(bisect_left(spans, (start, start)) - 1, 0)
    while at < len(spans) and spans[at][0] < end:
        covered += max(0, min(end, spans[at][1]) - max(start, spans[at][0]))
        at += 1
    return covered


class _DevicePartition:
    def __init__(self, window: Window, host: HostTimeline, device: int) -> None:
        self.window, self.host = window, host
        events = window.device
        self.starts, self.ends, self.work = events.start_ns, events.end_ns, events.work
        mine = [i for i in range(len(events)) if events.device[i] == device]
        self.order = sorted(mine, key=lambda i: (self.starts[i], self.ends[i]))
        self.launches = self._launches()
        self.owned: dict[int, Part] = {}
        launchers = sorted({thread for thread, _ in self.launches.values()})
        self.asked = [host.main, *host.node_threads, *launchers]

    def _launches(self) -> dict[int, tuple[int, int]]:
        """Thread and time of the call that launched each correlation."""
        calls, wanted = self.window.calls, set(self.window.device.correlation)
        return {
            correlation: (thread, at)
            for correlation, thread, at in zip(
                calls.correlation, calls.thread, calls.start_ns, strict=True
            )
            if correlation in wanted
        }

    def launch(self, i: int) -> tuple[int, int] | None:
        return self.launches.get(self.window.device.correlation[i])

    def part(self, i: int) -> Part:
        """The part of a device event: by its work, else by who launched it."""
        if self.work[i] == Work.COPY:
            return COPY
        if self.work[i] == Work.COMMUNICATION:
            return TALK
        found = self.owned.get(i)
        if found is None:
            launch = self.launch(i)
            thread = self.host.threads.get(launch[0]) if launch else None
            state = thread.at(launch[1]) if thread and launch else NOWHERE
            owner = SCRIPT if state == NOWHERE else self.host.states[state].owner
            found = self.owned[i] = part_of(owner)
        return found

    def partition(self, steps: Sequence[HostStep]) -> list[StepParts]:
        edges = self._edges()
        found = [
            StepParts(step=s.step, begin_ns=edges(s.begin_ns), end_ns=edges(s.end_ns))
            for s in steps
        ]
        found = [parts for parts in found if parts.length_ns > 0]
        ahead = deque(found)
        for start, end, kernel, hidden in self._segments(found):
            drained = kernel < 0 and self._waited(start)
            while ahead and ahead[0].end_ns <= start:
                ahead.popleft()
            for parts in ahead:
                if parts.begin_ns >= end:
                    break
                begin, until = max(start, parts.begin_ns), min(end, parts.end_ns)
                if until > begin:
                    self._add(parts, begin, until, kernel, hidden, drained)
        self._count(found)
        return found

    def _edges(self) -> _Edges:
        """The mapping of a mark to the instant at which an event recorded there completes."""
        busy: dict[int, int] = {}
        streams = self.window.device.stream
        for i in self.order:
            if self.work[i] == Work.COMPUTE:
                busy[streams[i]] = busy.get(streams[i], 0) + self.ends[i] - self.starts[i]
        main = max(busy, key=lambda stream: busy[stream], default=None)
        pairs = []
        for i in self.order:
            launch = self.launch(i) if streams[i] == main else None
            if launch is not None:
                pairs.append((launch[1], self.ends[i]))
        return _Edges(pairs)

    def _segments(self, steps: Sequence[StepParts]) -> Iterator[tuple[int, int, int, bool]]:
        """Stretches of time as (start, end, device event or -1, communication hidden).

        Where several run the one that owns the stretch: computing before communication before
        copies, of equals the one that began first.
        """
        if not steps:
            return
        running: tuple[deque[int], ...] = (deque(), deque(), deque())
        at = min(parts.begin_ns for parts in steps)
        last = max(parts.end_ns for parts in steps)
        ends = self.ends
        for i in [*self.order, -1]:
            until = self.starts[i] if i >= 0 else max(last, at)
            while at < until:
                for queue in running:
                    while queue and ends[queue[0]] <= at:
                        queue.popleft()
                talks = self._longest(running[Work.COMMUNICATION], at)
                owner = next((queue[0] for queue in running if queue), -1)
                stop = until if owner < 0 else min(until, ends[owner])
                # A communication may end while the computing that hides it goes on.
                hidden = talks > at and bool(running[Work.COMPUTE])
                if hidden:
                    stop = min(stop, talks)
                yield at, stop, owner, hidden
                at = stop
            if i >= 0 and ends[i] > at:
                running[self.work[i]].append(i)

    def _longest(self, queue: deque[int], at: int) -> int:
        return max((self.ends[i] for i in queue), default=at) if queue else at

    def _waited(self, at: int) -> bool:
        """Whether the host waited for the device at an instant, so that nothing was queued."""
        main = self.host.threads.get(self.host.main)
        state = main.at(at) if main else NOWHERE
        return state != NOWHERE and self.host.states[state].mode is Mode.SYNCHRONISE

    def _add(
        self,
        parts: StepParts,
        start: int,
        end: int,
        kernel: int,
        hidden: bool,
        drained: bool,
    ) -> None:
        if kernel >= 0:
            parts.add(self.part(kernel), end - start)
            parts.busy_ns += end - start
            parts.hidden_ns += end - start if hidden else 0
            return
        talking = overlap_ns(self.host.asynchronous, start, end)
        if talking:
            for begin, until in _outside(self.host.asynchronous, start, end):
                self._add_idle(parts, begin, until, drained)
            parts.add(TALK, talking)
        else:
            self._add_idle(parts, start, end, drained)

    def _add_idle(self, parts: StepParts, start: int, end: int, drained: bool) -> None:
        """Count a stretch without work; `drained`: it began while the host waited for the device.

        Operations that then prepare the next work would have been queued before, had the host not
        waited: that time is the waiting's. Python between them is not.
        """
        host = self.host
        for begin, until, state in host.over(start, end, [self._launcher(end), *self.asked]):
            if state == NOWHERE:
                parts.add(REMAINDER, until - begin)
                parts.add_gap(REMAINDER, begin, until)
                continue
            owner, mode = host.states[state]
            cause: Cause = "host"
            if owner == INPUT:
                cause = "input"
            elif mode is Mode.SYNCHRONISE or drained:
                cause = "synchronise"
            part = idle_of(owner, cause)
            parts.add(part, until - begin)
            if cause == "host":
                parts.add_gap(part, begin, until)

    def _launcher(self, at: int) -> int | None:
        """The thread that launched the device event which begins at or after an instant."""
        found = bisect_left(self.order, at, key=lambda i: self.starts[i])
        launch = self.launch(self.order[found]) if found < len(self.order) else None
        return launch[0] if launch else None

    def _count(self, steps: Sequence[StepParts]) -> None:
        for parts in steps:
            first = bisect_left(self.order, parts.begin_ns, key=lambda i: self.starts[i])
            beyond = bisect_left(self.order, parts.end_ns, key=lambda i: self.starts[i])
            for i in self.order[first:beyond]:
                part = self.part(i)
                parts.calls[part] = parts.calls.get(part, 0) + 1


class _Edges:
    def __init__(self, launched: list[tuple[int, int]]) -> None:
        launched.sort()
        self._at: list[int] = []
        self._done: list[int] = []
        for at, end in launched:
            self._at.append(at)
            self._done.append(max(end, self._done[-1]) if self._done else end)

    def __call__(self, mark_ns: int) -> int:
        before = bisect_left(self._at, mark_ns) - 1
        return max(mark_ns, self._done[before]) if before >= 0 else mark_ns


def _outside(spans: Sequence[tuple[int, int]], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The pieces of a stretch that spans leave over."""
    at = start
    for span_start, span_end in spans[max(bisect_left(spans, (start, start)) - 1, 0) :]:
        if span_start >= end:
            break
        if span_start > at:
            yield at, span_start
        at = max(at, span_end)
    if at < end:
        yield at, end
