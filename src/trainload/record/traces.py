"""Sealing of traced windows: what a worker saved becomes one Chrome trace for each process.

Copies the events' text without reading it; what they mean is for others to say.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from trainload.files import replacing
from trainload.record import layout
from trainload.record.lines import LineReader, is_number

TRACE_FORMAT = 1
_EVENTS_KEY = b'"traceEvents": ['
_KEPT = ("schemaVersion", "deviceProperties", "displayTimeUnit", "baseTimeNanoseconds")
_HEAD_BYTES = 1 << 20
_LEVEL = 4  # windows are long and repetitive: a higher one costs time and gains little


def seal_traces(run_dir: Path, start_s: float, budget: float | None) -> None:
    """Join the windows of every process into its trace; nothing where none was saved."""
    for rank in ranks_of(run_dir):
        events = LineReader(path=run_dir / layout.events_file(rank)).read_rest()
        windows = _windows(run_dir, events, start_s)
        if windows:
            _write_trace(run_dir, rank, windows, _header(rank, windows, events, budget))


def remove_windows(run_dir: Path) -> None:
    """Take away the single windows once they are joined."""
    for path in [*run_dir.glob(layout.WINDOW_GLOB), run_dir / layout.WINDOW_PLAN]:
        path.unlink(missing_ok=True)


def ranks_of(run_dir: Path) -> list[int]:
    """Which processes left events of their own; the first is 0 whatever else is there."""
    others = (layout.rank_of(path.name) for path in run_dir.glob(layout.EVENTS_GLOB))
    return sorted({0, *(rank for rank in others if rank is not None)})


def _windows(run_dir: Path, events: Iterable[Any], start_s: float) -> list[dict[str, Any]]:
    """The windows that events tell of and whose file is whole, in order."""
    found = []
    for event in events:
        if not isinstance(event, Mapping) or event.get("kind") != "window":
            continue
        times = [event.get(key) for key in ("begin_s", "end_s", "cost_s")]
        name = event.get("file")
        if not all(map(is_number, times)) or not isinstance(name, str) or "/" in name:
            continue
        if _events_span(run_dir / name) is None:
            continue
        window = {key: value for key, value in event.items() if key != "kind"}
        found.append(
            {
                **window,
                "begin_s": event["begin_s"] - start_s,
                "end_s": event["end_s"] - start_s,
            }
        )
    return found


def _header(
    rank: int, windows: list[dict[str, Any]], events: Iterable[Any], budget: float | None
) -> dict[str, Any]:
    modules: list[Any] = []
    notes = []
    compiled = False
    for event in events:
        if not isinstance(event, Mapping):
            continue
        if event.get("kind") == "modules" and isinstance(event.get("modules"), list):
            modules, compiled = event["modules"], event.get("compiled") is True
        elif event.get("kind") == "layers" and event.get("state") == "failed":
            notes.append(f"tracing ended early: {event.get('reason')}")
    if compiled:
        notes.append(
            "the model is compiled: inside a compiled region layers cannot be told apart, "
            "its time stands with the module that calls it"
        )
    return {
        "format": TRACE_FORMAT,
        "rank": rank,
        "device": windows[0].get("device"),
        "budget": budget,
        "windows": [{k: v for k, v in w.items() if k != "file"} for w in windows],
        "modules": modules,
        "notes": notes,
    }


def _write_trace(
    run_dir: Path, rank: int, windows: list[dict[str, Any]], header: Mapping[str, Any]
) -> None:
    path = run_dir / layout.trace_file(rank)
    with (
        replacing(path, sync=True) as file,
        gzip.GzipFile("", "wb", _LEVEL, fileobj=file) as out,
    ):
        head = {"trainload": header, **_head_of(run_dir / windows[0]["file"])}
        out.write(json.dumps(head)[:-1].encode() + b', "traceEvents": [\n')
        for position, window in enumerate(windows):
            marker = {"ph": "M", "name": "trainload.window", "ts": 0, "pid": 0, "tid": 0}
            text = json.dumps({**marker, "args": {"index": window["index"]}})
            out.write((",\n" if position else "").encode() + text.encode())
            _copy_events(run_dir / window["file"], out)
        out.write(b"\n]}\n")


def _copy_events(source: Path, out: Any) -> None:
    span = _events_span(source)
    assert span is not None
    first, last = span
    with source.open("rb") as file:
        file.seek(first)
        body = file.read(last - first).strip()
    if body:
        out.write(b",\n")
        out.write(body)


def _head_of(path: Path) -> dict[str, Any]:
    """The few general fields of a window that a reader of its events needs."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    text = head[: head.index(_EVENTS_KEY)].decode("utf-8", "replace").rstrip().rstrip(",")
    try:
        fields = json.loads(text + "}")
    except ValueError:
        return {}
    return {key: fields[key] for key in _KEPT if key in fields}


def _events_span(path: Path) -> tuple[int, int] | None:
    """Where the events of a saved window begin and end; None where the file is not whole."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            file.seek(max(0, size - 8192))
            tail_at, tail = file.tell(), file.read()
    except OSError:
        return None
    begin = head.find(_EVENTS_KEY)
    # The list is followed by the file's own name alone, which may hold any character.
    end = tail.rfind(b'],"traceName"')
    end = tail.rfind(b"],") if end < 0 else end
    if begin < 0 or end < 0 or not tail.rstrip().endswith(b"}"):
        return None
    return begin + len(_EVENTS_KEY), tail_at + end
