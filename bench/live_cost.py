"""What watching a run costs: the viewer's own CPU time, and the steps beside it.

    python bench/live_cost.py --json FILE

Runs one after the other, in changing order: nobody watches, the screen of `trainload live` on a
terminal of 140 × 45 that is read all the time, the page of `trainload live --serve` asked for once
a second as a browser does. The viewer's CPU time is the kernel's account of its process, its start
(imports, first look) apart from the rest; the step time is the run's own, median after warm-up,
over that of the unwatched run of the same round.
"""

import argparse
import fcntl
import json
import math
import os
import pty
import random
import re
import shlex
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import urllib.request
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from trainload.intervals import ratio_interval

LIMIT = 0.03
"""Of one core, that a viewer may take while a run goes on."""
VIEWERS = ("nobody", "screen", "page")
SETTLE_S = 3.0
"""After a viewer has first shown something; until then it counts as its start."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0, help="that each run is watched for")
    parser.add_argument("--viewers", default=",".join(VIEWERS), help="of these; nobody is needed")
    parser.add_argument("--setting", default="cpu0", help="of the run")
    parser.add_argument("--words", default="--layers --batch-size 128", help="more of the run's")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for number in range(options.rounds):
        order = options.viewers.split(",")
        random.Random(number).shuffle(order)
        for viewer in order:
            print(f"  round {number + 1}: {viewer}", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory() as scratch:
                rows.append({"round": number, **watch(viewer, Path(scratch), options)})
    found = summarise(rows)
    for line in found["lines"]:
        print(line)
    if options.json:
        document = {"command": shlex.join(["python", *sys.argv]), **found, "rows": rows}
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return int(max(found["cpu_fraction"].values()) > LIMIT)


def watch(viewer: str, out: Path, options: Any) -> dict[str, Any]:
    """One run, watched for a while and then ended."""
    words = [sys.executable, "-m", "trainload", "run", "mlp", "--epochs", "100000", "-q"]
    words += ["--setting", options.setting, "--out", str(out), *shlex.split(options.words)]
    run = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        path = wait_for_steps(out, run)
        row: dict[str, Any] = {"viewer": viewer}
        if viewer == "nobody":
            time.sleep(options.seconds)
        else:
            row |= follow(viewer, path, options.seconds)
    finally:
        run.terminate()
        run.wait(60)
    steps = step_times(path)
    return {**row, "steps": len(steps), "step_s": statistics.median(steps[len(steps) // 10 :])}


def step_times(path: Path) -> list[float]:
    """Seconds of each step by the run's own marks; a machine that measures may lack tables."""
    times: list[float] = []
    for line in (path / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["kind"] == "steps":
            times += [b - a for a, b in pairwise(event["end_s"])]
    return times


def wait_for_steps(out: Path, run: subprocess.Popen[bytes]) -> Path:
    """The run directory, once steps have been written down."""
    until_s = time.monotonic() + 120
    while time.monotonic() < until_s:
        for path in out.glob("*/events.jsonl"):
            if '"kind":"steps"' in path.read_text():
                return path.parent
        assert run.poll() is None, "the run ended"
        time.sleep(0.2)
    raise AssertionError("the run makes no step")


def follow(viewer: str, path: Path, seconds: float) -> dict[str, float]:
    """CPU seconds of a viewer's start, and a second of the rest."""
    words = [sys.executable, "-m", "trainload", "live", str(path)]
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 45, 140, 0, 0))
    more = [] if viewer == "screen" else ["--serve", "--port", "0"]
    process = subprocess.Popen(
        [*words, *more],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color"},
    )
    os.close(theirs)
    shown, ended = bytearray(), threading.Event()
    threading.Thread(target=read_all, args=(ours, shown), daemon=True).start()
    if viewer == "page":
        threading.Thread(target=ask_all, args=(shown, ended), daemon=True).start()
    try:
        account = psutil.Process(process.pid)
        sign = b"Throughput" if viewer == "screen" else b"live page: "
        until_s = time.monotonic() + 60
        while sign not in shown:
            assert process.poll() is None and time.monotonic() < until_s, shown[-500:]
            time.sleep(0.1)
        time.sleep(SETTLE_S)
        start_s, begun_s = used_s(account), time.monotonic()
        time.sleep(seconds)
        cpu_s, over_s = used_s(account) - start_s, time.monotonic() - begun_s
        memory_bytes = account.memory_info().rss
        assert process.poll() is None, shown[-500:]
    finally:
        ended.set()
        process.terminate()
        process.wait(10)
        os.close(ours)
    return {
        "start_cpu_s": start_s,
        "cpu_fraction": cpu_s / over_s,
        "memory_bytes": memory_bytes,
        "written_bytes": len(shown),
    }


def read_all(descriptor: int, shown: bytearray) -> None:
    """Takes what a terminal shows."""
    while True:
        try:
            shown += os.read(descriptor, 65536)
        except OSError:
            return


def ask_all(shown: bytearray, ended: threading.Event) -> None:
    """Asks for the page's document once a second."""
    while not ended.wait(1.0):
        found = re.search(rb"http://127\.0\.0\.1:\d+/", bytes(shown))
        if found:
            with urllib.request.urlopen(found.group().decode() + "data.json") as answer:
                answer.read()


def used_s(process: psutil.Process) -> float:
    """CPU time of one process so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The viewers' shares of a core, and the steps beside them."""
    plain = {row["round"]: row["step_s"] for row in rows if row["viewer"] == "nobody"}
    lines, fractions = [], {}
    for viewer in dict.fromkeys(row["viewer"] for row in rows if row["viewer"] != "nobody"):
        own = [row for row in rows if row["viewer"] == viewer]
        fractions[viewer] = statistics.median(row["cpu_fraction"] for row in own)
        highest = max(row["cpu_fraction"] for row in own)
        logs = [math.log(row["step_s"] / plain[row["round"]]) for row in own]
        interval = ratio_interval(logs)
        ratio = f"{math.exp(statistics.median(logs)):.4f}"
        if interval is not None:
            ratio = f"{interval.value:.4f} [{interval.low:.4f}, {interval.high:.4f}]"
        lines.append(
            f"{viewer:6}  {fractions[viewer]:.2%} of a core (highest {highest:.2%}), start "
            f"{statistics.median(row['start_cpu_s'] for row in own):.2f} s, "
            f"{max(row['memory_bytes'] for row in own) / 2**20:.0f} MiB; step time {ratio}"
        )
    return {"cpu_fraction": fractions, "lines": lines}


if __name__ == "__main__":
    sys.exit(main())
