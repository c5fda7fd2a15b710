"""Throughput of a study on two Ray nodes against one, on loopback; and what a lost node costs.

    python bench/study_ray.py --cells 12 --cell-s 5 --json FILE

Cells of the fake framework that wait, so that two nodes on one machine do not share its cores. The
ratio is of the time from the first run's start to the last one's end. Exit status 1 below 1.8.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
LEAST_RATIO = 1.8


@contextmanager
def cluster(*nodes: dict[str, Any]) -> Iterator[tuple[Any, list[Any]]]:
    """A head without CPUs and these nodes, on this machine: the cluster and its nodes."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": 100 * 2**20}
    found = Cluster(initialize_head=True, head_node_args=head)
    try:
        small = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
        made = [found.add_node(**{**small, **one}) for one in nodes]
        yield found, made
    finally:
        found.shutdown()


def write_study(folder: Path, cells: int, cell_s: float, more: str = "", name: str = "s") -> Path:
    """A study of cells that wait so many seconds each."""
    path = folder / f"{name}.yaml"
    path.write_text(
        f"name: {name}\nworkload:\n  model: mlp\n  framework: fake\n  epochs: 1\n  max_steps: 10\n"
        "  frames_fraction: 0.02\n  check_overhead: false\n  batch_size: 64\n"
        f"  fake: {{step_s: {cell_s / 10}}}\n"
        "cool_down: false\nother_load: false\n"
        f"factors: {{hidden_units: {list(range(8, 8 + cells))}}}\n" + more
    )
    return path


def start(file: Path, out: Path, on: str, *words: str) -> subprocess.Popen[str]:
    """The command that begins or goes on with the study there."""
    command = [sys.executable, "-m", "trainload", "study", "run", str(file), "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [*command, "--on", on, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def starts_and_ends(folder: Path) -> list[tuple[float, float, str]]:
    """When each run of a study began and ended, in wall-clock seconds, and its cell."""
    from trainload.record import load_manifest

    found = []
    for path in sorted((folder / "runs").iterdir()):
        manifest = load_manifest(path)
        clock, told = manifest.clock, manifest.study
        assert clock is not None and clock.end_s is not None
        assert clock.start_wall_s is not None and told is not None
        begin_s = clock.start_wall_s
        found.append((begin_s, begin_s + clock.end_s - clock.start_s, told.cell))
    return sorted(found)


def measure(scratch: Path, nodes: int, cells: int, cell_s: float) -> dict[str, Any]:
    """One study on so many nodes: seconds from the first start to the last end."""
    out = scratch / f"nodes-{nodes}"
    out.mkdir()
    file = write_study(out, cells, cell_s)
    with cluster(*({} for _ in range(nodes))) as (one, _):
        start_s = time.monotonic()
        process = start(file, out, f"ray:{one.address}", "--quiet")
        said = process.communicate()
        whole_s = time.monotonic() - start_s
    assert process.returncode == 0, said
    spans = starts_and_ends(out / "s")
    assert len(spans) == cells == len({cell for _, _, cell in spans}), spans
    return {"nodes": nodes, "span_s": spans[-1][1] - spans[0][0], "command_s": whole_s}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", type=int, default=12)
    parser.add_argument("--cell-s", type=float, default=5.0)
    parser.add_argument("--json", type=Path, help="write the results there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(Path(folder), n, options.cells, options.cell_s) for n in (1, 2)]
    ratio = rows[0]["command_s"] / rows[1]["command_s"]
    span_ratio = rows[0]["span_s"] / rows[1]["span_s"]
    for row in rows:
        print(f"{row['nodes']} nodes: {row['span_s']:.1f} s, {row['command_s']:.1f} s with all")
    print(f"{options.cells} cells of {options.cell_s:g} s: {span_ratio:.2f} times the throughput")
    print(f"with the start and the end of the command: {ratio:.2f} times")
    if options.json:
        found = {"command": shlex.join(["python", *sys.argv]), "rows": rows}
        options.json.write_text(json.dumps({**found, "ratio": span_ratio, "whole": ratio}) + "\n")
    return int(span_ratio < LEAST_RATIO)


if __name__ == "__main__":
    sys.exit(main())
