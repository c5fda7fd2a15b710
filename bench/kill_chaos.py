"""Random `kill -9` of worker, sampler or driver: every directory must read back.

    python bench/kill_chaos.py --kills 200

After each kill: the directory opens, its outcome is not `completed`, and at most the last second
of samples before the kill is missing. Exit status 1 where a kill broke a promise.
"""

import argparse
import collections
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from trainload.record import Run, layout, load_manifest, open_run

DRIVER = """
import sys
from pathlib import Path
from trainload.run import execute_run, prepare_request
steps = None if sys.argv[2] == "none" else int(sys.argv[2])
options = {"frames_fraction": 0.005, "batch_size": 16, "epochs": 100000, "max_steps": steps}
execute_run(prepare_request("mlp", options, out=Path(sys.argv[1]), framework="fake",
    fake={"step_s": 0.005}, timeout_s=60.0))
"""
TARGETS = ("worker", "sampler", "driver")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    plans = [(draw.choice(TARGETS), draw.uniform(0.0, 3.0)) for _ in range(options.kills)]
    plans += [("closing driver", draw.uniform(0.0, 0.1)) for _ in range(options.kills // 5)]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.at_once) as pool:
        trials = list(pool.map(lambda p: trial(Path(folder) / str(p[0]), *p[1]), enumerate(plans)))
    broken = [t for t in trials if t["complaints"]]
    counts = collections.Counter((t["target"], t["outcome"]) for t in trials)
    for (target, outcome), count in sorted(counts.items()):
        print(f"  {target:22} killed {count:4} times -> {outcome}")
    lost = sorted(t["lost_s"] for t in trials if t["lost_s"] is not None)
    print(
        f"  samples missing before or around the kill: median {lost[len(lost) // 2]:.2f} s, "
        f"worst {lost[-1]:.2f} s; {len(broken)} of {len(trials)} kills broke a promise"
    )
    for one in broken:
        print("  BROKEN", one)
    if options.json:
        options.json.write_text(json.dumps(trials, indent=1) + "\n")
    sys.exit(bool(broken))


def trial(out: Path, target: str, delay_s: float) -> dict[str, object]:
    """One run, one kill, one reading."""
    # A run whose sampler dies goes on to its end. A driver is also killed while it closes a run.
    steps = {"sampler": "900", "closing driver": "220"}.get(target, "none")
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(out), steps])
    run_dir = wait_for(lambda: next(out.glob("*/run.json"), None)).parent
    if target == "closing driver":
        wait_for(lambda: b'"kind":"end"' in read_bytes(run_dir / layout.EVENTS) or None)
    time.sleep(delay_s)
    killed_s = kill(driver, target)
    driver.wait(timeout=60)
    closed_before = target == "closing driver" and load_manifest(run_dir).outcome is not None
    complaints = []
    lost_s = None
    # A child forked just before the kill holds the directory until it has become another program.
    run = wait_for(lambda: closed_run(run_dir))
    if closed_before:
        target, killed_s = "driver that had closed", None
    elif run.manifest.outcome == "completed":
        complaints.append(f"outcome {run.manifest.outcome}")
    if not run.steps["step"].is_sorted() or not run.samples["t_s"].is_sorted():
        complaints.append("tables out of order")
    if killed_s is not None and run.samples.height:
        lost_s = missing_before(run, killed_s - run.manifest.origin_s, target)
        if lost_s > 1.0:
            complaints.append(f"{lost_s:.2f} s of samples lost")
    return {
        "target": target,
        "delay_s": round(delay_s, 3),
        "outcome": run.manifest.outcome,
        "reason": run.manifest.outcome_reason,
        "lost_s": lost_s,
        "complaints": complaints,
    }


def read_bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def closed_run(run_dir: Path) -> Run | None:
    run = open_run(run_dir)
    return None if run.running else run


def missing_before(run: Run, kill_s: float, target: str) -> float:
    """The longest stretch without samples that touches the kill, planned pauses left out."""
    times = run.samples["t_s"].to_list()
    before = max((t for t in times if t <= kill_s), default=None)
    if before is None:
        return 0.0  # killed before sampling had begun
    edge = kill_s
    if target == "sampler":
        edge = min((t for t in times if t > kill_s), default=float("inf"))
    overhead = run.manifest.overhead
    blocks = () if overhead is None else overhead.blocks
    planned = sum(max(0.0, min(edge, b.end_s) - max(before, b.start_s)) for b in blocks)
    return edge - before - planned


def kill(driver: subprocess.Popen[bytes], target: str) -> float | None:
    """Kill one of the three; the time, or None where it was not there any more."""
    pid = driver.pid
    if target in ("worker", "sampler"):
        pid = wait_for(lambda: find_child(driver.pid, target))
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return time.monotonic()


def find_child(driver_pid: int, target: str) -> int | None:
    word = b"trainload.run.sampling.sampler" if target == "sampler" else b"trainload_worker"
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
            if parent == driver_pid and word in (entry / "cmdline").read_bytes():
                return int(entry.name)
        except (OSError, ValueError, IndexError):
            continue
    return None


def wait_for(look: Callable[[], Any], limit_s: float = 30.0) -> Any:
    deadline_s = time.monotonic() + limit_s
    while time.monotonic() < deadline_s:
        found = look()
        if found is not None:
            return found
        time.sleep(0.01)
    raise AssertionError("what was waited for did not come")


if __name__ == "__main__":
    main()
