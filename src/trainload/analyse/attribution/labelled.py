"""Every instant of a step given to its parts, from events that say themselves whose they are.

For windows that the worker labelled: TensorFlow, JAX and MXNet. Whole nanoseconds; where several
lanes work at once each has an equal part, and what is shared out still sums exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from trainload.analyse.attribution.correct import share
from trainload.analyse.attribution.events import Window
from trainload.analyse.attribution.host import WAY_IN_NS
from trainload.analyse.attribution.labels import SYNCHRONISE, LabelledEvents
from trainload.analyse.attribution.memory import Layer
from trainload.analyse.attribution.partition import (
    REMAINDER,
    Part,
    StepParts,
    idle_of,
    part_of,
)
from trainload.analyse.attribution.steps import HostStep
from trainload.analyse.attribution.timeline import INPUT, NO_ROOT, NOWHERE, Owner, Thread


@dataclass(frozen=True, kw_only=True)
class LabelledSteps:
    """The steps of a window over their parts, and the layers that had any event."""

    steps: list[StepParts]
    layers: dict[Layer, None]


class _Doing(NamedTuple):
    """What went on during a stretch: the owners (numbers) of the busy lanes, or of an idle one."""

    owners: tuple[int, ...]
    busy: bool


_NOTHING = _Doing((), False)


def partition_labelled(
    window: Window, steps: Sequence[HostStep], modules: Sequence[Mapping[str, Any]]
) -> LabelledSteps:
    """The steps over their parts: operations, then ranges, then short ways into an operation."""
    events = window.labelled
    names = _Names(events, modules)
    operations, calls = _nest(events, ranges=False)
    ranges, _ = _nest(events, ranges=True)
    found = [StepParts(step=s.step, begin_ns=s.begin_ns, end_ns=s.end_ns) for s in steps]
    times: list[dict[_Doing, int]] = [{} for _ in found]
    first = 0
    begin_ns = min((parts.begin_ns for parts in found), default=0)
    last_ns = max((parts.end_ns for parts in found), default=0)
    for start, end, doing in _stretches(operations, ranges, begin_ns, last_ns):
        while first < len(found) and found[first].end_ns <= start:
            first += 1
        for at in range(first, len(found)):
            if found[at].begin_ns >= end:
                break
            inside = min(end, found[at].end_ns) - max(start, found[at].begin_ns)
            if inside > 0:
                times[at][doing] = times[at].get(doing, 0) + inside
    for parts, spent in zip(found, times, strict=True):
        for doing, time_ns in spent.items():
            names.give(parts, doing, time_ns)
        for at_ns, number in calls:
            if parts.begin_ns <= at_ns < parts.end_ns:
                for part in names.working(number):
                    parts.calls[part] = parts.calls.get(part, 0) + 1
    return LabelledSteps(steps=found, layers=names.layers)


class _Names:
    """Owners' numbers as parts; layers get the root of the model they stand in."""

    def __init__(self, events: LabelledEvents, modules: Sequence[Mapping[str, Any]]) -> None:
        self._owners = events.owners
        self._roots = {module["layer"]: module["root"] for module in modules}
        self._default = modules[0]["root"] if modules else NO_ROOT
        named = chain.from_iterable(events.owners)
        self.layers: dict[Layer, None] = {
            (self._root(owner.layer), owner.layer): None
            for owner, _ in named
            if owner is not None and owner.layer is not None
        }

    def _root(self, layer: str) -> str:
        root: str = self._roots.get(layer, self._default)
        return root

    def _placed(self, owner: Owner) -> Owner:
        return owner if owner.layer is None else owner._replace(root=self._root(owner.layer))

    def working(self, number: int) -> list[Part]:
        """The parts of an operation."""
        return [
            REMAINDER if owner in (None, SYNCHRONISE) else part_of(self._placed(owner))
            for owner, _ in self._owners[number]
        ]

    def idling(self, number: int) -> list[Part]:
        """The parts of time in which the host prepared something."""
        found = []
        for owner, _ in self._owners[number]:
            if owner is None:
                found.append(REMAINDER)
            else:
                found.append(_idle_part(self._placed(owner)))
        return found

    def give(self, parts: StepParts, doing: _Doing, time_ns: int) -> None:
        """Count a time into the parts of all that went on during it."""
        if not doing.owners:
            parts.add(REMAINDER, time_ns)
            return
        lanes = share(time_ns, [1] * len(doing.owners))
        for number, lane_ns in zip(doing.owners, lanes, strict=True):
            weights = [weight for _, weight in self._owners[number]]
            named = self.working(number) if doing.busy else self.idling(number)
            for part, part_ns in zip(named, share(lane_ns, weights), strict=True):
                parts.add(part, part_ns)
            if doing.busy and len(weights) > 1:
                parts.fused_ns += lane_ns
        if doing.busy:
            parts.busy_ns += time_ns


def _idle_part(owner: Owner) -> Part:
    if owner == INPUT:
        return part_of(INPUT)
    return idle_of(owner, "synchronise" if owner == SYNCHRONISE else "host")


def _nest(
    events: LabelledEvents, *, ranges: bool
) -> tuple[dict[int, Thread], list[tuple[int, int]]]:
    """The innermost event of each lane at each instant, as its owner's number above 0.

    Also the start and owner of each event that is not inside another of the same owner.
    """
    starts, ends = events.start_ns, events.end_ns
    wanted = [i for i in range(len(events)) if bool(events.is_range[i]) is ranges]
    wanted.sort(key=lambda i: (starts[i], -ends[i]))
    lanes: dict[int, Thread] = {}
    stacks: dict[int, list[tuple[int, int]]] = {}
    calls: list[tuple[int, int]] = []
    for i in wanted:
        thread = lanes.setdefault(events.lane[i], Thread())
        stack = stacks.setdefault(events.lane[i], [])
        _unwind(thread, stack, starts[i])
        number = events.owner[i]
        if not stack or stack[-1][1] != number:
            calls.append((starts[i], number))
        # Of events that cross, the later one is cut: a lane does one thing at a time.
        stack.append((min(ends[i], stack[-1][0]) if stack else ends[i], number))
        thread.change(starts[i], number + 1)
    for lane, stack in stacks.items():
        _unwind(lanes[lane], stack, None)
    return lanes, calls


def _unwind(thread: Thread, stack: list[tuple[int, int]], at_ns: int | None) -> None:
    """Pop the events that end at or before `at_ns`; all of them for None."""
    while stack and (at_ns is None or stack[-1][0] <= at_ns):
        end_ns, _ = stack.pop()
        thread.change(end_ns, stack[-1][1] + 1 if stack else NOWHERE)


def _stretches(
    operations: Mapping[int, Thread], ranges: Mapping[int, Thread], begin_ns: int, end_ns: int
) -> Iterator[tuple[int, int, _Doing]]:
    """What went on between two instants, without gaps, as (start, end, what)."""
    changes = sorted(
        (at, is_range, lane, state)
        for is_range, lanes in ((False, operations), (True, ranges))
        for lane, thread in lanes.items()
        for at, state in zip(thread.starts, thread.states, strict=True)
    )
    working: dict[int, int] = {}
    waiting: dict[int, tuple[int, int]] = {}
    since, doing = begin_ns, _NOTHING
    for place, (at, is_range, lane, state) in enumerate(changes):
        if is_range:
            waiting.pop(lane, None)
            if state != NOWHERE:
                waiting[lane] = at, state - 1
        else:
            working.pop(lane, None)
            if state != NOWHERE:
                working[lane] = state - 1
        if place + 1 < len(changes) and changes[place + 1][0] == at:
            continue
        now = _doing(working, waiting)
        if now == doing:
            continue
        if at > since:
            # A long stretch outside of everything may have been spent on anything.
            short = doing == _NOTHING and now.busy and at - since <= WAY_IN_NS
            yield since, at, _Doing(now.owners[:1], False) if short else doing
            since = at
        doing = now
    if end_ns > since:
        yield since, end_ns, doing


def _doing(working: Mapping[int, int], waiting: Mapping[int, tuple[int, int]]) -> _Doing:
    if working:
        return _Doing(tuple(sorted(working.values())), True)
    if waiting:
        # Of the ranges of several lanes the one entered last.
        return _Doing((max(waiting.values())[1],), False)
    return _NOTHING
