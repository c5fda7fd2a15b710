"""Reads what TensorFlow's profiler wrote: operations, and the marks put in while training.

Knows no layer. Times are microseconds of the profiler's clock; a lane is one thread.
"""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass
from typing import Any

STEP = "trainload.step:"
"""Begins the name of a step's end; the number follows."""
INPUT = "trainload.input"
"""Name of the time in which rows are taken and turned into tensors."""
CALL = "trainload.call"
"""Name of the call of a step's function, operations included."""

_OPERATION = re.compile(r"([A-Za-z0-9.][\w.\\/>-]*):([A-Za-z_]\w*)")
"""TensorFlow's own form: the operation's name in its graph, then its kind."""


@dataclass(frozen=True)
class Operation:
    """One execution of an operation; work that it hands to other threads is inside of it."""

    name: str
    kind: str
    start_us: float
    end_us: float
    lane: str


@dataclass(frozen=True)
class Profile:
    """One window: steps' ends as (step, time), and spans as (start, end), each in order."""

    operations: list[Operation]
    marks: list[tuple[int, float]]
    inputs: list[tuple[float, float]]
    calls: list[tuple[float, float]]


def load_profile(folder: str) -> Profile:
    """The profile that was saved under the folder; OSError where there is none."""
    found = glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True)
    if not found:
        raise OSError("the profiler saved nothing; is the disk full?")
    # No public door: a release that moves it must train all the same.
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    with open(found[0], "rb") as file:
        space.ParseFromString(file.read())
    profile = Profile([], [], [], [])
    for plane in space.planes:
        if plane.name.startswith("/host:"):
            for line in plane.lines:
                _read_line(plane, line, profile)
    for events in (profile.marks, profile.inputs, profile.calls):
        events.sort()
    profile.operations.sort(key=lambda operation: operation.start_us)
    return profile


def _read_line(plane: Any, line: Any, profile: Profile) -> None:
    begin_us = line.timestamp_ns / 1e3
    lane = f"{line.name or 'thread'} {line.id & 0xFFFF}"
    for event in line.events:
        name = plane.event_metadata[event.metadata_id].name
        start_us = begin_us + event.offset_ps / 1e6
        end_us = start_us + event.duration_ps / 1e6
        operation = _OPERATION.fullmatch(name)
        if operation is not None:
            made = Operation(operation[1], operation[2], start_us, end_us, lane)
            profile.operations.append(made)
        elif name.startswith(STEP):
            profile.marks.append((int(name[len(STEP) :]), start_us))
        elif name in (INPUT, CALL):
            (profile.inputs if name == INPUT else profile.calls).append((start_us, end_us))
