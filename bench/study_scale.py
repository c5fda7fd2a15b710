"""What a study costs beside its runs: planning, each cell, status, resuming, memory.

    python bench/study_scale.py --json FILE
    python bench/study_scale.py --real 200 --json FILE

1,000 cells with the fake backend, which trains nothing: the time between two runs is the study's
own. With --real only so many are run; the others are given copies of those runs under their own
names, which status and resuming read as any other. Memory is that of the process after planning
and reading 100 and 10,000 cells whose journal was written beforehand. Beside the time on the wall
stands that of the processor, which other load on the machine does not stretch; for a cell it is
all that the study's own process took, the looks at the running cell and its sealing included. With
--out the study is kept, and gone on with. Exit status 1 where a limit is passed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LIMITS = {"plan_s": 2.0, "overhead_s": 0.3, "status_s": 1.0, "resume_s": 2.0}
GROWTH_BYTES = 24 << 20
"""What 9,900 more cells may take of memory."""

_MEMORY = """
import resource, sys
from pathlib import Path
from trainload.study import load_study, plan_study, read_status
from trainload.study.folder import save_plan
from trainload.study.ledger import Entry, Ledger
study = load_study(sys.argv[1])
made = plan_study(study)
folder = Path(sys.argv[2]) / study.name
(folder / "runs").mkdir(parents=True)
save_plan(folder, study, [(cell, 1.0) for cell in made.cells])
ledger = Ledger(folder)
figures = {f"figure_{number}": float(number) for number in range(25)}
for number, cell in enumerate(made.cells):
    name = f"mlp-{number}"
    (folder / "runs" / name).mkdir()
    ledger.finish(Entry(run=name, cell=cell.identity, repetition=0, outcome="completed",
        verdict="counted", duration_s=1.0, figures=figures))
found = read_status(folder)
assert found.done == len(made.cells), found.done
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def write_study(path: Path, cells: int, more: str = "") -> Path:
    """A grid of so many quick cells."""
    units, sizes = range(8, 8 + cells // 10), range(64, 74)
    path.write_text(
        "name: scale\nworkload:\n  model: mlp\n  framework: fake\n  epochs: 1\n  max_steps: 2\n"
        "  frames_fraction: 0.005\n  check_overhead: false\n  fake: {step_s: 0.0}\n"
        "cool_down: false\nother_load: false\n"
        f"factors:\n  hidden_units: {list(units)}\n  batch_size: {list(sizes)}\n" + more
    )
    return path


def timed(*words: str) -> tuple[float, float]:
    """Seconds that a command of trainload took, its start included: on the wall, and of CPU."""
    start_s, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "trainload", "study", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - start_s, cpu_s


def copy_runs(folder: Path) -> None:
    """Give each cell without a run a copy of one, told that it is that cell's."""
    runs = sorted((folder / "runs").iterdir())
    told = {path: json.loads((path / "run.json").read_text()) for path in runs}
    have = {one["study"]["cell"] for one in told.values()}
    cells = map(json.loads, (folder / "cells.jsonl").read_text().splitlines())
    left = [cell for cell in cells if cell["identity"] not in have]
    for number, (cell, path) in enumerate(zip(left, itertools.cycle(runs), strict=False)):
        place = path.with_name(f"copy-{number:05}")
        shutil.copytree(path, place)
        study = {**told[path]["study"], "cell": cell["identity"], "factors": cell["factors"]}
        (place / "run.json").write_text(json.dumps({**told[path], "study": study}))


def run_watched(*words: str, ends_with: int) -> float:
    """Run a command of trainload; seconds of CPU of that process alone, without its children."""
    import psutil

    command = [sys.executable, "-m", "trainload", "study", *words]
    process = psutil.Popen(command, stdout=subprocess.DEVNULL)
    spent_s = 0.0
    while process.poll() is None:
        try:
            times = process.cpu_times()
            spent_s = max(spent_s, times.user + times.system)
        except psutil.Error:
            break
        time.sleep(0.5)
    assert process.wait() == ends_with, "it said why"
    return spent_s


def between_runs(folder: Path) -> list[float]:
    """Seconds from the end of each run to the start of the next, by the runs' own clocks."""
    clocks = sorted(
        (clock["start_s"], clock["end_s"])
        for path in (folder / "runs").iterdir()
        if not path.name.startswith("copy-")
        and (clock := json.loads((path / "run.json").read_text())["clock"])
    )
    return [after[0] - before[1] for before, after in itertools.pairwise(clocks)]


def peak_bytes(scratch: Path, cells: int) -> int:
    """Peak memory of a process that plans so many cells and reads their status."""
    file = write_study(scratch / f"{cells}.yaml", cells)
    out = scratch / f"out-{cells}"
    done = subprocess.run(
        [sys.executable, "-c", _MEMORY, str(file), str(out)],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


def measure(scratch: Path, cells: int, real: int) -> dict[str, Any]:
    """All figures of one study."""
    file, out = write_study(scratch / "study.yaml", cells), scratch / "studies"
    plan_s, plan_cpu_s = min(timed("plan", str(file), "--out", str(out)) for _ in range(3))
    limit = "" if real >= cells else f"limits: {{runs: {real}}}\n"
    write_study(file, cells, limit)
    driver_cpu_s = run_watched(
        "run", str(file), "--out", str(out), "--quiet", ends_with=int(bool(limit))
    )
    if limit:
        write_study(file, cells)
        copy_runs(out / "scale")
        timed("run", str(file), "--out", str(out), "--quiet")
    # A gap of many seconds lies between two sessions.
    gaps = [gap for gap in between_runs(out / "scale") if gap < 60]
    status_s, status_cpu_s = min(timed("status", str(out / "scale"), "--json") for _ in range(3))
    resume_s, resume_cpu_s = min(
        timed("run", str(file), "--out", str(out), "--quiet") for _ in range(3)
    )
    with tempfile.TemporaryDirectory() as apart:
        small, large = peak_bytes(Path(apart), 100), peak_bytes(Path(apart), 10_000)
    return {
        "cells": cells,
        "real_runs": len(gaps) + 1,
        "load_average": os.getloadavg()[0],
        "plan_s": plan_s,
        "plan_cpu_s": plan_cpu_s,
        "overhead_s": statistics.median(gaps),
        "overhead_p95_s": statistics.quantiles(gaps, n=20)[-1],
        "overhead_cpu_s": driver_cpu_s / len(gaps),
        "status_s": status_s,
        "status_cpu_s": status_cpu_s,
        "resume_s": resume_s,
        "resume_cpu_s": resume_cpu_s,
        "peak_bytes_100": small,
        "peak_bytes_10000": large,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--real", type=int, help="cells that are run; the others get copies")
    parser.add_argument("--json", type=Path, help="write the results there")
    parser.add_argument("--out", type=Path, help="keep the study there, or go on with it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        if options.out is not None:
            options.out.mkdir(parents=True, exist_ok=True)
        real = options.cells if options.real is None else options.real
        found = measure(options.out or Path(scratch), options.cells, real)
    found["command"] = shlex.join(["python", *sys.argv])
    passed = [name for name, limit in LIMITS.items() if found[name] > limit]
    for name, limit in LIMITS.items():
        cpu = found.get(name.replace("_s", "_cpu_s"))
        spent = "" if cpu is None else f", {cpu:.3f} s of CPU"
        print(f"{name:12} {found[name]:7.3f} s, at most {limit:g} s{spent}")
    growth = found["peak_bytes_10000"] - found["peak_bytes_100"]
    if growth > GROWTH_BYTES:
        passed.append("memory")
    print(f"load average {found['load_average']:.1f}")
    print(
        f"memory       {found['peak_bytes_100'] / 2**20:.0f} MiB at 100 cells, "
        f"{found['peak_bytes_10000'] / 2**20:.0f} MiB at 10,000"
    )
    print(f"passed: {', '.join(passed)}" if passed else "all limits kept")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return int(bool(passed))


if __name__ == "__main__":
    sys.exit(main())
