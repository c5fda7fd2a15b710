"""Gives each operation of an MXNet profile to its layer; runs nothing and imports no framework.

The profile names kinds of operation alone. What the tracer saw beside it tells them apart: each
node of the model's graph was waited for as it was given out, so that the operation of its kind
that ended since the node before is its own. Anything else is nobody's.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

from trainload_worker.windows.labelled_events import (
    INPUT,
    RANGE,
    SYNCHRONISE,
    UNKNOWN,
    UPDATE,
    LabelledWindow,
    Owner,
    layer,
    loss,
)

_HOUSEKEEPING = frozenset({"DeleteVariable", "WaitForVar", "WaitForAll"})
"""The engine's own, which compute nothing; waiting would count as work."""
_BEGINNING = re.compile(rb'("traceEvents": \[)\s*,')
"""Of every profile of a process but the first, which goes on where the one before ended."""
_BY_PHASE: Mapping[str, Owner] = {
    "input": INPUT,
    "loss": loss("forward"),
    "update": UPDATE,
    "end": SYNCHRONISE,
}
"""Phases of a step that are one owner's as a whole."""


@dataclass(frozen=True)
class Node:
    """A node of the model's graph has ended; seen once for each of its outputs."""

    at_us: float
    name: str
    kind: str
    phase: str


@dataclass(frozen=True)
class Operation:
    """What the engine ran on one of its threads."""

    start_us: float
    end_us: float
    kind: str
    lane: int


@dataclass
class Seen:
    """What the tracer noted during a window, in order of time, beside the profile."""

    path: str
    marks: list[tuple[int, float]] = field(default_factory=list)
    phases: list[tuple[str, float]] = field(default_factory=list)
    """Name and begin; each lasts until the next one or a mark."""
    nodes: list[Node] = field(default_factory=list)


class LayerNames:
    """Finds the layer of a node by its name, which begins with the layer's."""

    def __init__(self, layers: Sequence[str]) -> None:
        self._layers = frozenset(layers)
        self._found: dict[str, str | None] = {}

    def find(self, node: str) -> str | None:
        """The layer with the longest name that fits; None for a node of none."""
        if node not in self._found:
            at = len(node)
            while at > 0 and node[:at] not in self._layers:
                at = node.rfind("_", 0, at)
            self._found[node] = node[:at] if at > 0 else None
        return self._found[node]


def label_profile(seen: Seen, names: LayerNames) -> LabelledWindow:
    """The window of labelled events; OSError or ValueError where the profile cannot be read."""
    with open(seen.path, "rb") as file:
        text = _BEGINNING.sub(rb"\1", file.read(), count=1)
    operations = read_operations(json.loads(text)["traceEvents"])
    owners = own_operations(operations, seen.nodes, names)
    base_us = seen.marks[0][1] if seen.marks else 0.0
    window = LabelledWindow()
    for step, at_us in seen.marks:
        window.mark(step, at_us - base_us)
    spans = _spans(seen)
    for at, operation in enumerate(operations):
        owner = owners.get(at) or _owner_by_phase(operation, spans, owners, operations)
        window.add(
            operation.kind,
            operation.start_us - base_us,
            operation.end_us - base_us,
            operation.lane,
            owner,
        )
    for start_us, end_us, owner in _ranges(spans, operations, owners):
        window.add("host", start_us - base_us, end_us - base_us, "host", owner, RANGE)
    return window


def read_operations(events: Sequence[Any]) -> list[Operation]:
    """The operations of a profile in order of time."""
    begun: dict[tuple[Any, str], float] = {}
    lanes: dict[Any, int] = {}
    found = []
    for event in events:
        if event.get("cat") != "operator" or event["name"] in _HOUSEKEEPING:
            continue
        thread, kind = event["tid"], event["name"]
        if event["ph"] == "B":
            begun[thread, kind] = event["ts"]
        elif event["ph"] == "E" and (thread, kind) in begun:
            lane = lanes.setdefault(thread, len(lanes))
            found.append(Operation(begun.pop((thread, kind)), event["ts"], kind, lane))
    return sorted(found, key=lambda operation: (operation.start_us, operation.end_us))


def own_operations(
    operations: Sequence[Operation], nodes: Sequence[Node], names: LayerNames
) -> dict[int, Owner]:
    """Whose each operation is, for those of the model; by their place in `operations`."""
    by_end = sorted(range(len(operations)), key=lambda at: operations[at].end_us)
    ends = [operations[at].end_us for at in by_end]
    found: dict[int, Owner] = {}
    nameless: list[int] = []
    since_us = float("-inf")
    for node in nodes:
        first, beyond = bisect_left(ends, since_us), bisect_left(ends, node.at_us + 1)
        ended = [
            at
            for at in by_end[first:beyond]
            if operations[at].kind == node.kind
            and operations[at].start_us >= since_us - 1
            and at not in found
        ]
        since_us = node.at_us
        name = names.find(node.name)
        if name is not None:
            # A sum of gradients, where a value was used twice, or a gradient of zeros is given
            # out right before the node that takes it, and has no layer's name.
            for at in nameless:
                found[at] = layer(name, node.phase)
            nameless = []
        if len(ended) != 1:
            continue
        if name is not None:
            found[ended[0]] = layer(name, node.phase)
        elif node.phase == "backward":
            nameless.append(ended[0])
    return found


def _spans(seen: Seen) -> list[tuple[float, float, str]]:
    """The phases as (begin, end, name)."""
    edges = sorted(
        [(at_us, 0, "") for _, at_us in seen.marks]
        + [(at_us, 1, name) for name, at_us in seen.phases]
    )
    return [
        (begin_us, end_us, name)
        for (begin_us, _, name), (end_us, _, _) in zip(edges, edges[1:])
        if name
    ]


def _span_at(spans: Sequence[tuple[float, float, str]], at_us: float) -> tuple[float, float, str]:
    place = bisect_left(spans, (at_us, float("inf"), "")) - 1
    if place < 0 or spans[place][1] < at_us:
        return at_us, at_us, ""
    return spans[place]


def _owner_by_phase(
    operation: Operation,
    spans: Sequence[tuple[float, float, str]],
    owners: Mapping[int, Owner],
    operations: Sequence[Operation],
) -> Owner:
    begin_us, end_us, name = _span_at(spans, operation.start_us)
    if name in _BY_PHASE and name != "end":
        return _BY_PHASE[name]
    if name == "backward":
        starts = [
            operations[at].start_us for at in owners if begin_us <= operations[at].start_us < end_us
        ]
        # The loss has its backward pass before any layer of the model.
        if operation.start_us < min(starts, default=end_us):
            return loss("backward")
    return UNKNOWN


def _ranges(
    spans: Sequence[tuple[float, float, str]],
    operations: Sequence[Operation],
    owners: Mapping[int, Owner],
) -> list[tuple[float, float, Owner]]:
    """What the host was busy with, wherever the engine has nothing to do."""
    starts = [operation.start_us for operation in operations]
    found: list[tuple[float, float, Owner]] = []
    for begin_us, end_us, name in spans:
        if name in _BY_PHASE:
            found.append((begin_us, end_us, _BY_PHASE[name]))
            continue
        since_us = begin_us
        for at in range(bisect_left(starts, begin_us), bisect_left(starts, end_us)):
            # Up to the model's first operation the loss has the backward pass.
            owner = owners.get(at)
            if owner is None:
                continue
            first = since_us == begin_us and name == "backward"
            found.append((since_us, operations[at].start_us, loss(name) if first else owner))
            since_us = max(since_us, operations[at].end_us)
        found.append((since_us, end_us, SYNCHRONISE))
    return [(start, end, owner) for start, end, owner in found if end > start]
