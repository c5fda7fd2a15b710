"""Sealing of traced windows: what a worker saved becomes one Chrome trace for each process.

Copies the events' text without reading it; what they mean is for others to say.
"""

from __future__ import annotations

import fnmatch
import gzip
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainload.files import replacing
from trainload.record import layout
from trainload.record.inside import open_inside
from trainload.record.lines import read_events
from trainload_worker.protocol.checked import to_json
from trainload_worker.protocol.events import Event
from trainload_worker.protocol.windows import (
    CompiledGraph,
    HostStacks,
    LayersFailed,
    ModuleTable,
    WindowSaved,
)

TRACE_FORMAT = 1
_EVENTS_KEY = b'"traceEvents": ['
_KEPT = ("schemaVersion", "deviceProperties", "displayTimeUnit", "baseTimeNanoseconds")
_HEAD_BYTES = 1 << 20
_LEVEL = 4  # windows are long and repetitive: a higher one costs time and gains little


def seal_traces(run_dir: Path, start_s: float, budget: float | None) -> tuple[str, ...]:
    """Join the windows of every process into its trace; nothing where none was saved.

    A window whose file is not whole is left out; a line for each says so.
    """
    notes: list[str] = []
    for rank in ranks_of(run_dir):
        events, _ = read_events(run_dir / layout.events_file(rank))
        windows, left_out = _windows(run_dir, events, start_s)
        notes += left_out
        if windows:
            header = _header(rank, [window for _, window in windows], events, budget)
            header["notes"] += left_out
            _write_trace(run_dir / layout.trace_file(rank), windows, header)
    return tuple(notes)


def remove_windows(run_dir: Path) -> None:
    """Take away the single windows once they are joined."""
    agreed = (run_dir / layout.WINDOW_PLAN, run_dir / layout.WINDOW_ASK)
    for path in [*run_dir.glob(layout.WINDOW_GLOB), *agreed]:
        path.unlink(missing_ok=True)


def ranks_of(run_dir: Path) -> list[int]:
    """Which processes left events of their own; the first is 0 whatever else is there."""
    others = (layout.rank_of(path.name) for path in run_dir.glob(layout.EVENTS_GLOB))
    return sorted({0, *(rank for rank in others if rank is not None)})


def _windows(
    run_dir: Path, events: Iterable[Event], start_s: float
) -> tuple[list[tuple[Path, WindowSaved]], list[str]]:
    """The windows that events tell of and whose file is whole, in order, and who was left out."""
    found, left_out = [], []
    for event in events:
        if not isinstance(event, WindowSaved) or not _is_window(event.file):
            continue
        if _events_span(run_dir / event.file) is None:
            left_out.append(f"{event.file} is not whole and was left out of the trace")
            continue
        begin_s, end_s = event.begin_s - start_s, event.end_s - start_s
        found.append((run_dir / event.file, replace(event, begin_s=begin_s, end_s=end_s)))
    return found, left_out


def _is_window(name: str) -> bool:
    """Whether a name is one that windows have: no other file becomes part of a trace."""
    return fnmatch.fnmatchcase(name, layout.WINDOW_GLOB) and "/" not in name and "\0" not in name


def _header(
    rank: int, windows: list[WindowSaved], events: Iterable[Event], budget: float | None
) -> dict[str, Any]:
    modules: tuple[Any, ...] = ()
    notes = []
    compiled = False
    graphs: dict[str, Any] = {}
    for event in events:
        if isinstance(event, ModuleTable):
            modules, compiled = event.modules, event.compiled
        elif isinstance(event, CompiledGraph):
            graphs[event.key] = {"key": event.key, "calls": list(event.calls)}
        elif isinstance(event, LayersFailed):
            notes.append(f"tracing ended early: {event.reason}")
    if compiled and not graphs:
        notes.append(
            "the model is compiled: inside a compiled region layers cannot be told apart, "
            "its time stands with the module that calls it"
        )
    told = [to_json(window) for window in windows]
    return {
        "format": TRACE_FORMAT,
        "rank": rank,
        "device": windows[0].device,
        "budget": budget,
        "windows": [{k: v for k, v in w.items() if k != "file"} for w in told],
        "modules": list(modules),
        "compiled": list(graphs.values()),
        "host": [to_json(event) for event in events if isinstance(event, HostStacks)],
        "notes": notes,
    }


def _write_trace(
    path: Path, windows: list[tuple[Path, WindowSaved]], header: Mapping[str, Any]
) -> None:
    with (
        replacing(path, sync=True) as file,
        gzip.GzipFile("", "wb", _LEVEL, fileobj=file) as out,
    ):
        head = {"trainload": header, **_head_of(windows[0][0])}
        out.write(json.dumps(head)[:-1].encode() + b', "traceEvents": [\n')
        for position, (source, window) in enumerate(windows):
            marker = {"ph": "M", "name": "trainload.window", "ts": 0, "pid": 0, "tid": 0}
            text = json.dumps({**marker, "args": {"index": window.index}})
            out.write((",\n" if position else "").encode() + text.encode())
            _copy_events(source, out)
        out.write(b"\n]}\n")


def _copy_events(source: Path, out: Any) -> None:
    span = _events_span(source)
    if span is None:
        return  # it was whole a moment ago; the others are worth more than this one
    first, last = span
    with open_inside(source) as file:
        file.seek(first)
        left = last - first
        begun = False
        while left > 0 and (piece := file.read(min(left, _HEAD_BYTES))):
            left -= len(piece)
            piece = piece if begun else piece.lstrip()
            if piece:
                out.write(piece if begun else b",\n" + piece)
                begun = True


def _head_of(path: Path) -> dict[str, Any]:
    """The few general fields of a window that a reader of its events needs."""
    with open_inside(path) as file:
        head = file.read(_HEAD_BYTES)
    text = head[: head.find(_EVENTS_KEY)].decode("utf-8", "replace").rstrip().rstrip(",")
    try:
        fields = json.loads(text + "}", parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return {}
    return {key: fields[key] for key in _KEPT if key in fields}


def _events_span(path: Path) -> tuple[int, int] | None:
    """Where the events of a saved window begin and end; None where the file is not whole.

    A hole in it, as a power cut leaves one, reads as zeros, which no JSON holds.
    """
    try:
        with open_inside(path) as file:
            head = file.read(_HEAD_BYTES)
            holed = b"\0" in head
            while not holed and (piece := file.read(_HEAD_BYTES)):
                holed = b"\0" in piece
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 8192))
            tail_at, tail = file.tell(), file.read(8192)
    except OSError:
        return None
    begin = head.find(_EVENTS_KEY) + len(_EVENTS_KEY)
    # The list is followed by the file's own name alone, which may hold any character.
    end = tail.rfind(b'],"traceName"')
    end = tail.rfind(b"],") if end < 0 else end
    whole = begin >= len(_EVENTS_KEY) and end >= 0 and tail.rstrip().endswith(b"}")
    if holed or not whole or tail_at + end < begin:
        return None
    return begin, tail_at + end
