"""Whether the partition's busy and idle time are right, on traces of runs measured on a GPU.

    python bench/layers_check.py RUN… [--hta PYTHON]

For each run: kernel time summed over all rows beside the union of the kernels' intervals, worked
out here from the trace alone; with --hta, an interpreter that has HolisticTraceAnalysis, also
beside its temporal breakdown of the same kernels. Prints the largest differences.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import polars as pl

from trainload.analyse.attribution import load_run_layers
from trainload.record import open_run

WORK = ("kernel", "gpu_memcpy", "gpu_memset")
HTA = """
import logging, sys, warnings
logging.disable(logging.CRITICAL); warnings.simplefilter("ignore")
from hta.trace_analysis import TraceAnalysis
for path in sys.argv[1:]:
    found = TraceAnalysis(trace_files={0: path}).get_temporal_breakdown(visualize=False).iloc[0]
    print(found["idle_time(us)"], found["kernel_time(us)"])
"""


def windows_of(document: dict[str, Any]) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The windows of a sealed trace that tell time, each with its events."""
    facts = {window["index"]: window for window in document["trainload"]["windows"]}
    events: dict[int, list[dict[str, Any]]] = {}
    index = -1
    for event in document["traceEvents"]:
        if event["name"] == "trainload.window":
            index = event["args"]["index"]
        events.setdefault(index, []).append(event)
    return [(facts[i], events[i]) for i in sorted(facts) if facts[i]["purpose"] == "time"]


def step_edges(facts: dict[str, Any], events: list[dict[str, Any]]) -> tuple[float, float]:
    """When the device ended the step before the window's first and the window's last step."""
    launched = {
        event["args"]["correlation"]: event["ts"]
        for event in events
        if event.get("cat") in ("cuda_runtime", "cuda_driver")
    }
    kernels = [event for event in events if event.get("cat") == "kernel"]
    busy: dict[int, float] = {}
    for kernel in kernels:
        busy[kernel["tid"]] = busy.get(kernel["tid"], 0.0) + kernel["dur"]
    main = max(busy, key=lambda stream: busy[stream])
    marks = {
        int(event["name"].split(":")[1]): event["ts"]
        for event in events
        if event["name"].startswith("trainload.step:")
    }

    def edge(step: int) -> float:
        done = [
            event["ts"] + event["dur"]
            for event in events
            if event.get("cat") in WORK
            and event["tid"] == main
            and launched.get(event["args"]["correlation"], float("inf")) < marks[step]
        ]
        return max([marks[step], *done])

    return edge(facts["first_step"] - 1), edge(facts["last_step"])


def union(events: list[dict[str, Any]], begin: float, end: float) -> float:
    """Time between two instants in which at least one of the events ran, in microseconds."""
    total, at = 0.0, begin
    for start, stop in sorted((event["ts"], event["ts"] + event["dur"]) for event in events):
        start, stop = max(start, at), min(stop, end)
        if stop > start:
            total += stop - start
            at = stop
    return total


def check_run(path: Path, hta: str | None) -> tuple[float, float | None]:
    """Largest relative differences of a run: against the union, and against HTA."""
    layers = load_run_layers(open_run(path))
    assert layers is not None, f"{path} has no layers"
    rows = layers.ranks[0].rows
    with gzip.open(path / "trace.json.gz") as file:
        document = json.load(file)
    ours_us = whole_us = 0.0
    traces = []
    with tempfile.TemporaryDirectory() as folder:
        for facts, events in windows_of(document):
            begin, end = step_edges(facts, events)
            work = [event for event in events if event.get("cat") in WORK]
            own = rows.filter(pl.col("window") == facts["index"])
            is_busy = ~pl.col("kind").is_in(["idle", "remainder", "input"])
            ours_us += own.filter(is_busy)["traced_s"].sum() * 1e6
            whole_us += union(work, begin, end)
            inside = [e for e in work if e["ts"] >= begin and e["ts"] + e["dur"] <= end]
            first = min(e["ts"] for e in inside)
            trace = {**document, "traceEvents": [e for e in events if e not in work] + inside}
            trace.pop("trainload")
            traces.append(Path(folder) / f"{facts['index']}.json.gz")
            with gzip.open(traces[-1], "wt") as out:
                json.dump(trace, out)
            # HTA's span begins with the first kernel; the idle time before it is ours alone.
            span = max(e["ts"] + e["dur"] for e in inside) - first
            idle_us = span - union(inside, first, first + span)
            traces[-1].with_suffix(".idle").write_text(f"{idle_us} {span}")
        against_union = abs(ours_us / whole_us - 1)
        return against_union, _against_hta(traces, hta) if hta else None


def _against_hta(traces: list[Path], hta: str) -> float:
    # By default it rounds every kernel to whole microseconds, some 3 % of short ones.
    exact = {**os.environ, "HTA_DISABLE_NS_ROUNDING": "1"}
    command = [hta, "-c", HTA, *map(str, traces)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=exact)
    worst = 0.0
    for trace, line in zip(traces, done.stdout.split("\n"), strict=False):
        idle_us, span_us = map(float, trace.with_suffix(".idle").read_text().split())
        their_idle_us, their_span_us = map(float, line.split())
        busy, their_busy = (span_us - idle_us) / span_us, 1 - their_idle_us / their_span_us
        worst = max(worst, abs(busy - their_busy))
    return worst


def main() -> None:
    """Check the runs named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--hta", help="interpreter that has HolisticTraceAnalysis")
    options = parser.parse_args()
    print("| run | busy time against the union of kernels | busy share against HTA |")
    print("|---|---|---|")
    worst = [0.0, 0.0]
    for path in options.runs:
        union_error, hta_error = check_run(path, options.hta)
        shown = "-" if hta_error is None else f"{hta_error:.3%}"
        print(f"| {path.name.rsplit('-', 3)[0]} | {union_error:.4%} | {shown} |", flush=True)
        worst = [max(worst[0], union_error), max(worst[1], hta_error or 0.0)]
    print(f"largest: {worst[0]:.4%} and {worst[1]:.3%}")
    sys.exit(worst[0] > 0.01 or worst[1] > 0.02)


if __name__ == "__main__":
    main()
