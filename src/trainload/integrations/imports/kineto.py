"""Kineto's Chrome traces of torch's profiler: traced steps and the trace itself, for the layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from trainload.analyse.attribution import RankLayers, collect_trace
from trainload.analyse.collect import recognise
from trainload.errors import UsageError
from trainload.integrations.imports.runs import ImportedRun, ImportOptions, described
from trainload.integrations.imports.source import digest_of

KIND = "kineto"
_WHOLE = "steps are the whole trace"


def read_kineto(paths: Sequence[Path], options: ImportOptions) -> Iterator[ImportedRun]:
    """A run for each trace; UsageError or TraceError where a file is none."""
    for path in paths:
        digest = digest_of(path)
        if recognise(path) != "trace":
            raise UsageError(f"{path} is no trace; give a file of export_chrome_trace")
        layers = collect_trace(path)
        told = described(options, path.name.partition(".")[0])
        events = [] if _WHOLE in layers.notes else _steps(layers)
        marked = "its steps are as traced, which is slower than without a profiler"
        unmarked = "the trace marks no steps, so none is counted"
        yield ImportedRun(
            kind=KIND,
            files={path.name: digest},
            **{**told, "framework": told["framework"] or "torch"},
            length_s=layers.traced_step_s if not events else None,
            events=events,
            notes=(marked if events else unmarked, *layers.notes),
            trace=path,
        )


def _steps(layers: RankLayers) -> list[dict[str, Any]]:
    """The traced steps as a worker would say them, one after the other from 0.

    Windows that lie apart in the trace are put together: what was between them is not known.
    """
    lengths: dict[tuple[int, int], float] = {}
    for window, step, traced_s in layers.rows.select("window", "step", "traced_s").iter_rows():
        lengths[window, step] = lengths.get((window, step), 0.0) + traced_s
    ends = list(accumulate(lengths.values()))
    return [
        {
            "kind": "steps",
            "epoch": 0,
            "first_step": 0,
            "start_s": 0.0,
            "end_s": ends,
            "loss": [None] * len(ends),
            "examples": [],
            "tokens": [],
        }
    ]
