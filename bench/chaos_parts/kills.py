"""Random `kill -9` of worker, sampler, driver and ranks: every directory must read back.

After each kill: the directory opens, its outcome is not `completed`, at most the last second of
samples before the kill is missing (three where the machine is full), and no process of the run is
left.
"""

from __future__ import annotations

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

from chaos_parts.tally import Tally
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
RANKS_DRIVER = """
import sys
from pathlib import Path
from trainload.run import execute_run, prepare_request
execute_run(prepare_request(sys.argv[2], {}, out=Path(sys.argv[1]), framework="fake",
    processes=2, timeout_s=60.0))
"""
TRAINING = "import time\nwhile True:\n    time.sleep(0.01)\n"
TARGETS = ("worker", "sampler", "driver")
RANK_TARGETS = ("rank", "launcher", "driver and launcher", "driver over ranks")
AT_ONCE = 3
MOST_LOST_S = 3.0
"""Samples are flushed every second; on a full machine the sampler's turn comes late."""
GONE_S = 15.0
"""How long what a kill left behind may take to end."""


def run(minutes: float, seed: int, count: int | None = None) -> Tally:
    """Kills by chance, three runs at a time, while there is time and until there are `count`."""
    tally = Tally(part="kills")
    draw = random.Random(seed)
    until_s = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        while time.monotonic() < until_s and (count is None or tally.trials < count):
            plans = [_plan(draw) for _ in range(4 * AT_ONCE)]
            places = [Path(folder) / str(tally.trials + n) for n in range(len(plans))]
            for seen in pool.map(lambda place, plan: _try(place, *plan), places, plans):
                tally.trials += 1
                for words in seen["complaints"]:
                    defect = (
                        "hangs" if "still runs" in words or "not come" in words else "runs_lost"
                    )
                    tally.complain(defect, f"{seen['target']} after {seen['delay_s']} s: {words}")
    return tally


def _plan(draw: random.Random) -> tuple[str, float]:
    target = draw.choice((*TARGETS, "closing driver", *RANK_TARGETS))
    return target, draw.uniform(0.0, 0.1 if target == "closing driver" else 2.0)


def _try(out: Path, target: str, delay_s: float) -> dict[str, Any]:
    try:
        return (ranks_trial if target in RANK_TARGETS else trial)(out, target, delay_s)
    except AssertionError as error:
        words = [str(error)]
        return {"target": target, "delay_s": round(delay_s, 3), "complaints": words}


def ranks_trial(out: Path, target: str, delay_s: float) -> dict[str, Any]:
    """A script in two processes, one kill or two so long after they began, one reading."""
    out.mkdir()
    script = out / "train.py"
    script.write_text(TRAINING)
    driver = subprocess.Popen([sys.executable, "-c", RANKS_DRIVER, str(out), str(script)])
    launcher = wait_for(lambda: find_child(driver.pid, "worker"))
    ranks = wait_for(lambda: _children(launcher) or None)
    run_dir = wait_for(lambda: next(out.glob("*/run.json"), None)).parent
    time.sleep(delay_s)
    ranks = {*ranks, *_children(launcher)}
    if "driver" in target:
        os.kill(driver.pid, signal.SIGKILL)
    if "launcher" in target:
        os.kill(launcher, signal.SIGKILL)
    if target == "rank":
        os.kill(max(ranks), signal.SIGKILL)
    deadline_s = time.monotonic() + GONE_S
    while (left := [pid for pid in (launcher, *ranks) if _runs(pid)]) and (
        time.monotonic() < deadline_s
    ):
        time.sleep(0.05)
    complaints = [f"{len(left)} of its processes still runs"] if left else []
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    driver.wait(timeout=60)
    run = wait_for(lambda: closed_run(run_dir))
    if run.manifest.outcome == "completed":
        complaints.append(f"outcome {run.manifest.outcome}")
    return {
        "target": target,
        "delay_s": round(delay_s, 3),
        "outcome": run.manifest.outcome,
        "complaints": complaints,
    }


def _children(parent: int) -> list[int]:
    return [pid for pid, (state, above) in _processes().items() if above == parent and state != "Z"]


def _runs(pid: int) -> bool:
    return _processes().get(pid, ("Z", 0))[0] not in "ZX"


def _processes() -> dict[int, tuple[str, int]]:
    """Every process with its state and its parent."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_bytes().rpartition(b") ")[2].split()
                found[int(entry.name)] = (words[0].decode(), int(words[1]))
            except (OSError, IndexError):
                continue
    return found


def trial(out: Path, target: str, delay_s: float) -> dict[str, Any]:
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
        if lost_s > MOST_LOST_S:
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
    for pid in _children(driver_pid):
        try:
            if word in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
        except OSError:
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
