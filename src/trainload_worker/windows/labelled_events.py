"""Writes a window of labelled events, in the outer form that torch's windows have.

Knows no framework: who labels an event says whose it is. Times are microseconds of one clock.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Sequence

Owner = Dict[str, Any]
"""An event's `args`: layer and phase, or kind, or shares of several; empty: nobody knows."""
UNKNOWN: Owner = {}
INPUT: Owner = {"kind": "input"}
COPY: Owner = {"kind": "copy"}
UPDATE: Owner = {"kind": "update"}
"""The optimizer's work on all layers at once."""
SYNCHRONISE: Owner = {"kind": "synchronise"}
"""For ranges: the host waited for the device."""
OPERATION, RANGE = "trainload_op", "trainload_range"
PHASES = ("forward", "backward", "update")


def layer(name: str, phase: str) -> Owner:
    """One layer in one phase."""
    return {"layer": name, "phase": phase}


def loss(phase: str) -> Owner:
    """The loss, forward or backward."""
    return {"kind": "loss", "phase": phase}


def share(weights: Sequence[tuple[str, str, float]]) -> Owner:
    """Several layers and phases by weight, as for an operation that was fused from theirs."""
    kept = [(name, phase, weight) for name, phase, weight in weights if weight > 0]
    whole = sum(weight for *_, weight in kept)
    if not kept:
        return UNKNOWN
    if len(kept) == 1:
        return layer(kept[0][0], kept[0][1])
    return {"shares": [[name, phase, weight / whole] for name, phase, weight in kept]}


class LabelledWindow:
    """The events of one window, in any order."""

    def __init__(self) -> None:
        self._events: list[dict[str, Any]] = []

    def mark(self, step: int, at_us: float) -> None:
        """The end of a step."""
        self._events.append(
            {"ph": "X", "cat": "user_annotation", "name": f"trainload.step:{step}",
             "ts": _micro(at_us), "dur": 0, "pid": 0, "tid": "steps"}
        )  # fmt: skip

    def add(
        self,
        name: str,
        start_us: float,
        end_us: float,
        lane: Any,
        owner: Owner,
        category: str = OPERATION,
    ) -> None:
        """An operation, or a range in which the host was busy for an owner."""
        self._events.append(
            {"ph": "X", "cat": category, "name": name, "ts": _micro(start_us),
             "dur": _micro(max(end_us - start_us, 0)), "pid": 0, "tid": lane, "args": owner}
        )  # fmt: skip

    def save(self, path: str) -> int:
        """Writes the window; its size in bytes."""
        with open(path, "w", encoding="ascii") as file:
            file.write('{"schemaVersion": 1, "displayTimeUnit": "ns", "traceEvents": [\n')
            file.write(",\n".join(json.dumps(event, allow_nan=False) for event in self._events))
            file.write(f'\n],"traceName": {json.dumps(os.path.basename(path))}}}\n')
        return os.path.getsize(path)


def _micro(time_us: float) -> float:
    """Nanoseconds are exact enough, and keep the text short and plain."""
    return round(time_us, 3)
