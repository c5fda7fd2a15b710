"""The layers so far: the newest traced window of a run that goes on, in its costliest parts.

Reads one file of bounded size; times are as traced: what a usual step takes is told at the end.
"""

from __future__ import annotations

import fnmatch
from pathlib import Path

from trainload.analyse.attribution import RankLayers, collect_trace
from trainload.analyse.live.view import LayerShare, LiveLayers
from trainload.errors import TraceError
from trainload.record.layout import WINDOW_GLOB
from trainload_worker.protocol.checked import to_json
from trainload_worker.protocol.windows import ModuleTable, WindowSaved

LARGEST_BYTES = 32 << 20
"""Of a window's file: to read a larger one would take longer than a live view may."""
MOST_LAYERS = 12


def read_window_layers(
    run_dir: Path, window: WindowSaved, modules: ModuleTable | None
) -> LiveLayers:
    """The layers of one window; TraceError where its file is no such trace or too large."""
    name = window.file
    if not fnmatch.fnmatchcase(name, WINDOW_GLOB) or "/" in name or "\0" in name:
        raise TraceError(f"{name!r:.80} is no name of a window")
    path = run_dir / name
    try:
        size_bytes = path.lstat().st_size
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from error
    if size_bytes > LARGEST_BYTES:
        raise TraceError(f"{name} has {size_bytes:,} bytes; its layers are told at the end")
    told = {**to_json(window), "index": 0}
    header = {
        "rank": 0,
        "device": window.device,
        "windows": [told],
        "modules": [] if modules is None else list(modules.modules),
    }
    return live_layers(collect_trace(path, header=header, inside=True), window.index)


def live_layers(found: RankLayers, window: int) -> LiveLayers:
    """The costliest layers and parts of an attribution."""
    step_s = found.step_s
    shares = [
        LayerShare(
            layer=f"{node.root}.{node.layer}" if node.layer else node.root,
            class_name=node.class_name,
            time_s=node.exclusive_s,
            fraction=node.exclusive_s / step_s if step_s > 0 else 0.0,
        )
        for node in found.nodes
        if node.exclusive_s > 0
    ]
    shares.sort(key=lambda one: -one.time_s)
    parts = sorted(found.parts.items(), key=lambda part: -part[1])
    return LiveLayers(
        window=window, step_s=step_s, parts=tuple(parts), layers=tuple(shares[:MOST_LAYERS])
    )
