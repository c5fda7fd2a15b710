"""Host events nested by thread, and whose each operation, range and gap is.

One pass over a window's host events in order of time, nested by thread; touches no device event.
"""

from __future__ import annotations

from typing import Literal

from trainload.analyse.attribution.compiled import Compiled, Region
from trainload.analyse.attribution.events import Role, Window
from trainload.analyse.attribution.timeline import (
    BARE_BACKWARD,
    COMMUNICATION,
    INPUT,
    NO_ROOT,
    NOWHERE,
    SCRIPT,
    UPDATE,
    HostTimeline,
    Mode,
    Owner,
    State,
    Thread,
)
from trainload.analyse.attribution.types import Phase

Layering = Literal["layer ranges", "nn.Module events", "user annotations", "operations"]
"""From which events layers are read."""

WAY_IN_NS = 50_000
"""Longest time between two calls of torch that is taken for the Python that leads to the second: in
a longer one the program may be doing anything."""

_MODULES = (Role.LAYER, Role.MODULE)
_CALLED = (Role.OPERATION, Role.ANNOTATION)
"""What a compiled graph's calls are in a trace."""


class _Frame:
    __slots__ = ("end_ns", "layered", "region", "role", "state")

    def __init__(self, end_ns: int, state: int, role: Role, layered: str | None) -> None:
        self.end_ns, self.state, self.role, self.layered = end_ns, state, role, layered
        self.region: Region | None = None


class _Lane:
    """A thread while its events are nested."""

    __slots__ = ("began_ns", "closed_ns", "forward_seen", "made", "node_owner", "stack", "thread")

    def __init__(self) -> None:
        self.thread = Thread()
        self.stack: list[_Frame] = []
        self.made: dict[int, int] = {}
        self.node_owner: Owner | None = None
        self.closed_ns: int | None = None
        self.began_ns = -1
        self.forward_seen = False

    def unwind(self, at_ns: int) -> None:
        """Pop the frames that end at or before `at_ns`."""
        stack = self.stack
        while stack and stack[-1].end_ns <= at_ns:
            frame = stack.pop()
            self.thread.change(frame.end_ns, stack[-1].state if stack else NOWHERE)
            self.closed_ns = frame.end_ns
            if frame.role in _MODULES and not (stack and stack[-1].role in _MODULES):
                self.forward_seen = True


class _Nesting:
    def __init__(
        self, window: Window, layering: Layering, main: int, way_in_ns: int, compiled: Compiled
    ) -> None:
        self.window, self.layering, self.main = window, layering, main
        self.way_in_ns, self.compiled = way_in_ns, compiled
        self.lanes: dict[int, _Lane] = {}
        self.states: list[State] = [State(SCRIPT, Mode.RANGE)]
        self.numbers: dict[State, int] = {}
        self.pending: set[int] = set()
        self.bound: dict[int, int] = {}
        self.backward_starts: list[int] = []
        self.calls: list[tuple[int, int]] = []
        self.asynchronous: list[tuple[int, int]] = []
        self.layers: dict[tuple[str, str], None] = {}
        self.node_threads: dict[int, None] = {}
        self.unknown = 0

    def number(self, owner: Owner, mode: Mode) -> int:
        state = State(owner, mode)
        found = self.numbers.get(state)
        if found is None:
            found = self.numbers[state] = len(self.states)
            self.states.append(state)
        return found

    def run(self) -> None:
        host, roles = self.window.host, self.window.roles
        starts, ends = host.start_ns, host.end_ns
        order = sorted(range(len(host)), key=lambda i: (starts[i], -ends[i]))
        for i in order:
            role = roles[host.name[i]]
            if role in (Role.MARK, Role.PROFILER_STEP):
                continue
            if role is Role.ASYNCHRONOUS:
                self.asynchronous.append((starts[i], ends[i]))
                continue
            lane = self.lanes.get(host.thread[i])
            if lane is None:
                lane = self.lanes[host.thread[i]] = _Lane()
            lane.unwind(starts[i])
            self._enter(i, role, lane)
        last = max(ends, default=0)
        for lane in self.lanes.values():
            lane.unwind(max(last, *(f.end_ns for f in lane.stack)) if lane.stack else last)

    def _enter(self, i: int, role: Role, lane: _Lane) -> None:
        host, at = self.window.host, self.window.host.start_ns[i]
        parent = lane.stack[-1] if lane.stack else None
        state, layered = self._state(i, role, lane, parent)
        if role in (Role.NODE, Role.ACCUMULATE):
            self._fill_gap(host.thread[i], lane, parent, at, state)
        elif parent is None:
            self._fill_way_in(lane, at, state)
        lane.began_ns = at
        nodes = role in (Role.NODE, Role.ACCUMULATE)
        if host.thread[i] == self.main or nodes:
            is_call = self.states[state].mode is Mode.OPERATION
            outer = parent is None or self.states[parent.state].mode is not Mode.OPERATION
            if is_call and (outer or (parent and parent.state != state)):
                self.calls.append((at, state))
        if nodes:
            self.node_threads.setdefault(host.thread[i])
        end = host.end_ns[i] if parent is None else min(host.end_ns[i], parent.end_ns)
        frame = _Frame(end, state, role, layered)
        lane.stack.append(frame)
        if role is Role.COMPILED:
            self._enter_region(i, frame)
        lane.thread.change(at, frame.state)

    def _enter_region(self, i: int, frame: _Frame) -> None:
        """Let the calls inside tell whose they are."""
        owner = self.states[frame.state].owner
        name = self.window.names[self.window.host.name[i]]
        frame.region = self.compiled.enter(name, owner if owner != SCRIPT else None)
        if frame.region is not None:
            frame.state = self.number(frame.region.between(), Mode.OPERATION)

    def _take(self, i: int, parent: _Frame) -> int | None:
        """The state of a call directly inside a compiled region; None where it is nobody's."""
        assert parent.region is not None
        owner = parent.region.take(self.window.names[self.window.host.name[i]])
        if owner is None:
            return None
        parent.state = self.number(parent.region.between(), Mode.OPERATION)
        return self.number(owner, Mode.OPERATION)

    def _state(
        self, i: int, role: Role, lane: _Lane, parent: _Frame | None
    ) -> tuple[int, str | None]:
        """The state of an event, and the path of modules where layers are read by nesting."""
        layered = parent.layered if parent else None
        inherited = self.states[parent.state].owner if parent else None
        if inherited == INPUT:
            return self.number(INPUT, Mode.RANGE), layered
        if role is Role.SYNCHRONISE:
            return self.number(inherited or SCRIPT, Mode.SYNCHRONISE), layered
        if parent is not None and parent.region is not None and role in _CALLED:
            state = self._take(i, parent)
            if state is not None:
                return state, layered
        if role is Role.OPERATION:
            return self._operation(i, lane, parent), layered
        if role in (Role.NODE, Role.ACCUMULATE):
            return self._node(i, role, lane), layered
        if role is Role.LAYER and self.layering == "layer ranges":
            root, path = split_layer(self.window.names[self.window.host.name[i]])
            return self._layer(root, path, inherited), layered
        if role is Role.MODULE and self.layering == "nn.Module events":
            name = self.window.names[self.window.host.name[i]].removeprefix("nn.Module: ")
            nested = name if layered is None else f"{layered}.{name}"
            root, _, path = nested.partition(".")
            return self._layer(root, path, inherited), nested
        if role is Role.ANNOTATION and self.layering == "user annotations":
            name = self.window.names[self.window.host.name[i]]
            return self._layer(NO_ROOT, name, inherited), layered
        return self._range(role, lane, inherited), layered

    def _range(self, role: Role, lane: _Lane, inherited: Owner | None) -> int:
        if role is Role.LOSS:
            phase: Phase = "backward" if inherited and inherited.phase == "backward" else "forward"
            return self.number(Owner("loss", None, None, phase), Mode.RANGE)
        if role is Role.BACKWARD:
            lane.forward_seen = False
            nested = inherited is not None and inherited.phase == "backward"
            return self.number(inherited if inherited and nested else BARE_BACKWARD, Mode.RANGE)
        if role is Role.OPTIMIZER:
            lane.forward_seen = False
            return self.number(UPDATE, Mode.RANGE)
        if role is Role.LOADER:
            return self.number(INPUT, Mode.RANGE)
        if role is Role.COMMUNICATION:
            return self.number(COMMUNICATION, Mode.OPERATION)
        if role is Role.COMPILED:
            return self.number(inherited or SCRIPT, Mode.OPERATION)
        return self.number(inherited or SCRIPT, Mode.RANGE)

    def _layer(self, root: str, path: str, inherited: Owner | None) -> int:
        self.layers.setdefault((root, path))
        recomputed = inherited is not None and inherited.phase == "backward"
        phase: Phase = "backward" if recomputed else "forward"
        return self.number(Owner("layer", root, path, phase), Mode.RANGE)

    def _operation(self, i: int, lane: _Lane, parent: _Frame | None) -> int:
        host = self.window.host
        sequence = host.sequence[i]
        if sequence >= 0 and host.forward_thread[i] > 0:
            if parent is None or parent.role not in (Role.NODE, Role.OPERATION):
                return self._node(i, Role.NODE, lane)
            return self.number(self.states[parent.state].owner, Mode.OPERATION)
        owner = self.states[parent.state].owner if parent is not None else SCRIPT
        # An optimizer may be handed the forward pass as a closure, and with it the loss.
        closure = parent is not None and parent.role is Role.OPTIMIZER and lane.forward_seen
        if parent is not None and parent.state in self.pending:
            state = parent.state
        elif owner != SCRIPT and not closure:
            state = self.number(owner, Mode.OPERATION)
        else:
            state = self._outside(i, lane)
        if sequence >= 0:
            lane.made[sequence] = state
        return state

    def _outside(self, i: int, lane: _Lane) -> int:
        """An operation in no module: a layer of its own, perhaps of the loss, else the script's."""
        if self.layering in ("operations", "user annotations"):
            name = self.window.names[self.window.host.name[i]]
            self.layers.setdefault((NO_ROOT, name))
            return self.number(Owner("layer", NO_ROOT, name, "forward"), Mode.OPERATION)
        if lane.forward_seen:
            # Whether it is of the loss is known once a backward node of it comes.
            self.pending.add(len(self.states))
            self.states.append(State(SCRIPT, Mode.OPERATION))
            return len(self.states) - 1
        return self.number(SCRIPT, Mode.OPERATION)

    def _node(self, i: int, role: Role, lane: _Lane) -> int:
        host = self.window.host
        self.backward_starts.append(host.start_ns[i])
        lane.forward_seen = False
        if self.main in self.lanes:
            self.lanes[self.main].forward_seen = False
        owner: Owner | None = None
        if role is Role.NODE:
            made = self._made_by(host.forward_thread[i], host.sequence[i])
            if made is None:
                self.unknown += 1
            elif made in self.pending or self.states[made].owner.kind == "loss":
                self.pending.discard(made)
                self.states[made] = State(Owner("loss", None, None, "forward"), Mode.OPERATION)
                owner = BARE_BACKWARD
            else:
                owner = self.states[made].owner._replace(phase="backward")
        # A gradient is accumulated right after the node that made it; so with unknown ones.
        owner = owner or lane.node_owner or BARE_BACKWARD
        lane.node_owner = owner
        return self.number(owner, Mode.OPERATION)

    def _made_by(self, forward_thread: int, sequence: int) -> int | None:
        """The state of the last operation begun with that number on the thread torch means.

        Torch numbers threads its own way; which is which shows where a number was given.
        """
        if sequence < 0:
            return None
        bound = self.bound.get(forward_thread)
        if bound is not None:
            found = self.lanes[bound].made.get(sequence)
            if found is not None:
                return found
        having = [number for number, lane in self.lanes.items() if sequence in lane.made]
        if len(having) != 1:
            having = [number for number in having if number == self.main]
        if not having:
            return None
        self.bound[forward_thread] = having[0]
        return self.lanes[having[0]].made[sequence]

    def _fill_gap(
        self, number: int, lane: _Lane, parent: _Frame | None, at: int, state: int
    ) -> None:
        """Give the time since the last event to the node it led to, at the level of the pass."""
        if parent is not None and parent.role is not Role.BACKWARD:
            return
        gap = self.number(self.states[state].owner, Mode.RANGE)
        main = self.lanes.get(self.main)
        # On autograd's own thread a pass goes on where the main thread began nothing since.
        goes_on = lane.closed_ns is not None and main is not None and main.began_ns < lane.closed_ns
        if number != self.main and main is not None and not goes_on:
            main.unwind(at)
            if main.stack and main.stack[-1].role is not Role.BACKWARD:
                return
            lane = main
        thread = lane.thread
        if lane.closed_ns is not None and thread.starts[-1] < at:
            since, resumed = thread.starts[-1], thread.states[-1]
            thread.change(since, gap)
            thread.change(at, resumed)

    def _fill_way_in(self, lane: _Lane, at: int, state: int) -> None:
        """Give a short time outside of everything to what it led to: the Python of that call."""
        owner = self.states[state].owner
        if lane.closed_ns is None or at - lane.closed_ns > self.way_in_ns or owner == INPUT:
            return
        thread = lane.thread
        if thread.states[-1] == NOWHERE and thread.starts[-1] == lane.closed_ns < at:
            thread.change(lane.closed_ns, self.number(owner, Mode.RANGE))


def split_layer(name: str) -> tuple[str, str]:
    """Root and path of a range `layer:<root>:<path>` or, where it names none, `layer:<path>`."""
    text = name.removeprefix("layer:")
    root, colon, path = text.partition(":")
    return (root, path) if colon else (NO_ROOT, text)


def choose_layering(window: Window) -> Layering:
    """From which events to read the layers of this window: the most exact kind it has."""
    roles = set(window.roles)
    if Role.LAYER in roles:
        return "layer ranges"
    if Role.MODULE in roles:
        return "nn.Module events"
    return "user annotations" if Role.ANNOTATION in roles else "operations"


def main_thread(window: Window) -> int:
    """The training thread: the one with most step marks, then ranges, then operations."""
    host, roles = window.host, window.roles
    counts: dict[int, list[int]] = {}
    wanted = (Role.MARK, Role.PROFILER_STEP), (Role.LAYER, Role.OPTIMIZER, Role.MODULE)
    for thread, name in zip(host.thread, host.name, strict=True):
        found = counts.setdefault(thread, [0, 0, 0])
        role = roles[name]
        found[0] += role in wanted[0]
        found[1] += role in wanted[1]
        found[2] += role is Role.OPERATION
    return max(counts, key=lambda thread: counts[thread], default=0)


def follow_host(
    window: Window,
    layering: Layering,
    *,
    way_in_ns: int = WAY_IN_NS,
    compiled: Compiled | None = None,
) -> HostTimeline:
    """Nest a window's host events and say whose each instant of each thread is.

    With `compiled` the inside of compiled regions too; its owners of several layers stand in the
    timeline until it shares them out.
    """
    compiled = compiled or Compiled({}, ())
    nesting = _Nesting(window, layering, main_thread(window), way_in_ns, compiled)
    nesting.run()
    ranks = [2] * len(nesting.states)
    for number, state in enumerate(nesting.states):
        if state.owner in (SCRIPT, BARE_BACKWARD) and state.mode is Mode.RANGE:
            ranks[number] = 1
    ranks[NOWHERE] = 0
    return HostTimeline(
        main=nesting.main,
        threads={number: lane.thread for number, lane in nesting.lanes.items()},
        states=nesting.states,
        ranks=ranks,
        backward_starts=nesting.backward_starts,
        calls=nesting.calls,
        node_threads=tuple(n for n in nesting.node_threads if n != nesting.main),
        asynchronous=join_spans(nesting.asynchronous),
        layers=nesting.layers,
        unknown_nodes=nesting.unknown,
    )


def join_spans(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The union of spans, disjoint and sorted."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        elif end > start:
            joined.append((start, end))
    return joined
