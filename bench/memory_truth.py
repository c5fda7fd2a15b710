"""Measures the memory of training steps on an NVIDIA GPU: what estimates are held against.

    PYTHONPATH=src python3 bench/memory_truth.py --out FOLDER --limit-s 540

Needs torch with CUDA, torchvision and transformers; downloads nothing. Every measurement is a
process of its own; results are written as they come, a second call with the same folder goes on
where the first stopped, and `--device cpu` goes through the motions without a GPU. Parts, in order:

constants   device bytes after the context, first kernel, cuBLAS, cuDNN, attention, and the
            allocator's events at each; constants.json
cases       each case of memory_cases.py, alone on the device (others are built on the CPU
            meanwhile): three plain steps, then one under a recorder of operations.
            cases/NAME.json           the case, `points` (one row after each stage), `error` or null
            cases/NAME.history.jsonl.gz  every allocator event since the process began
            cases/NAME.ops.jsonl.gz      every operation of the fourth step
sweep       single operations (memory_sweep.py), forward and backward, twice: sweep/GROUP.jsonl.gz
caps        some cases with the allocator capped around what they needed: caps/NAME-CAP.json and
            its history; outcome `fits` or `out_of_memory`

A point: `at`, `position` (allocations + frees so far: an index into the history's a, f and q rows),
`nvml_used` (whole device, all processes), `cuda_free`, and the allocator's bytes: allocated,
reserved, active, their peaks since the step began, allocs, frees, retries, ooms.
The points are idle (before CUDA starts), context, model (weights and batch on the device), step1,
step2, step3, recorded.
History rows: [code, bytes, address, stream], codes in memory_recorder.read_history.
Op rows: see memory_recorder.OpRecorder. The workspace of an operation is its peak less the larger
of allocated before and after; the history between its two positions says what it is made of.
Sweep rows: {"kind", "options", "error", "runs": [[op row + its own events, …] for both runs]}.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import memory_measure as measure

PARTS = ("constants", "cases", "sweep", "caps")
AHEAD = 8
CAPPED_AT_ONCE = 4
CONVOLUTION_SHARDS = 3
CAPPED = """
resnet50-b64-adam-float32 densenet121-b32-momentum-float32 vgg16-b64-sgd-float32
efficientnet_b0-b64-adam-float32 vit_b_16-b64-adam-bf16 bert_base_128-b32-adamw-float32
gpt2_512-b8-adamw-float32 t5_small_256-b32-adamw-bf16 unet-b16-adam-float32
inception_v3-b32-adam-float32 resnet18-b128-momentum-float32 zoo_lstm_lm-b64-sgd-float32
"""


class Session:
    """Starts the measuring processes one after the other, or several at once, within the limit."""

    def __init__(self, out: Path, device: str, limit_s: float, cases: str, only: list[str]) -> None:
        self.out, self.device, self.cases, self.only = out, device, cases, only
        self.end = time.time() + limit_s
        self.environment = {
            **os.environ,
            "OMP_NUM_THREADS": "4",
            "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        }
        (out / "logs").mkdir(parents=True, exist_ok=True)

    def _spawn(self, label: str, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, __file__, "--out", str(self.out), "--device", self.device]
        command += ["--cases", self.cases]
        with (self.out / "logs" / f"{label}.log").open("w") as log:
            return subprocess.Popen(
                [*command, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self.environment,
            )

    def left_s(self) -> float:
        """Seconds until the limit."""
        return self.end - time.time()

    def run_constants(self) -> None:
        """One process."""
        child = self._spawn("constants", "--child", "constants")
        _finish(child, 120)

    def run_cases(self) -> None:
        """Built ahead several at once, measured one at a time."""
        names = [
            case.name for case in measure.load_cases(self.cases).CASES if self._wanted(case.name)
        ]
        waiting: list[tuple[str, subprocess.Popen[str]]] = []
        names.reverse()
        while names or waiting:
            while names and len(waiting) < AHEAD and self.left_s() > 40:
                name = names.pop()
                waiting.append((name, self._spawn(name, "--child", f"case:{name}")))
            if not waiting:
                break
            name, child = waiting.pop(0)
            if self.left_s() < 15:
                child.kill()
                continue
            self._measure(name, child)

    def _wanted(self, name: str) -> bool:
        kept = self.out / "cases" / f"{name}.json"
        done = kept.exists() and json.loads(kept.read_text())["error"] is None
        return not done and (not self.only or any(word in name for word in self.only))

    def _measure(self, name: str, child: subprocess.Popen[str]) -> None:
        began = time.time()
        ready = select.select([child.stdout], [], [], measure.CASE_TIMEOUT_S)[0]
        waited_s = time.time() - began
        if ready:
            try:
                child.stdin.write("go\n")
                child.stdin.flush()
            except BrokenPipeError:
                pass
        _finish(child, max(5, min(measure.CASE_TIMEOUT_S, self.left_s() - 3)))
        path = self.out / "cases" / f"{name}.json"
        error = json.loads(path.read_text())["error"] if path.exists() else "no result"
        ended = time.time() - began
        print(f"{name}: {error or 'ok'} (waited {waited_s:.1f} s, {ended:.1f} s)", flush=True)

    def run_sweep_and_caps(self, sweep: bool, caps: bool) -> None:
        """Both at once: neither depends on who else is on the device."""
        running: list[subprocess.Popen[str]] = []
        if sweep:
            until = str(self.end - 25)
            groups = [f"convolution-{n}of{CONVOLUTION_SHARDS}" for n in range(CONVOLUTION_SHARDS)]
            for group in ["products", "others", *groups]:
                words = ("--child", f"sweep:{group}", "--until", until)
                running.append(self._spawn(f"sweep-{group}", *words))
        capped: list[subprocess.Popen[str]] = []
        for name, cap_bytes in self._plan_caps() if caps else []:
            while len([child for child in capped if child.poll() is None]) >= CAPPED_AT_ONCE:
                time.sleep(0.1)
            if self.left_s() < 45:
                print("no time left for more caps", flush=True)
                break
            words = ("--child", f"cap:{name}:{cap_bytes}")
            capped.append(self._spawn(f"cap-{name}-{cap_bytes}", *words))
        for child in [*capped, *running]:
            _finish(child, max(3.0, self.left_s() - 5))

    def _plan_caps(self) -> list[tuple[str, int]]:
        plan: list[tuple[str, int]] = []
        for name in CAPPED.split():
            path = self.out / "cases" / f"{name}.json"
            if not path.exists() or json.loads(path.read_text())["error"]:
                continue
            steps = [
                point
                for point in json.loads(path.read_text())["points"]
                if str(point["at"]).startswith("step")
            ]
            allocated = max(point["allocated_peak"] for point in steps)
            reserved = max(point["reserved_peak"] for point in steps)
            between = reserved - allocated
            caps = [allocated * 0.96, allocated + 0.15 * between, allocated + 0.5 * between]
            caps += [allocated + 0.85 * between, reserved - (2 << 20), reserved]
            for cap in caps:
                cap_bytes = int(cap)
                if not (self.out / "caps" / f"{name}-{cap_bytes}.json").exists():
                    plan.append((name, cap_bytes))
        # Every case once before any case twice: the time may run out.
        return [plan[index] for start in range(6) for index in range(start, len(plan), 6)]


def _finish(child: subprocess.Popen[str], seconds: float) -> None:
    try:
        child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()


def _run_child(words: argparse.Namespace) -> None:
    kind, _, rest = words.child.partition(":")
    if kind == "constants":
        measure.measure_constants(words.out, words.device)
    elif kind == "case":
        measure.measure_case(
            rest, words.out / "cases", words.device, measure.load_cases(words.cases), told=True
        )
    elif kind == "sweep":
        measure.measure_sweep(rest, words.out / "sweep", words.device, words.until)
    else:
        name, cap = rest.rsplit(":", 1)
        measure.measure_capped(name, int(cap), words.out / "caps", words.device)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--limit-s", type=float, default=540.0)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--parts", default=",".join(PARTS), help="of " + ", ".join(PARTS))
    parser.add_argument("--cases", default="memory_cases", help="or memory_families")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose name has such a word")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.child:
        _run_child(words)
        return
    session = Session(words.out, words.device, words.limit_s, words.cases, words.only)
    parts = words.parts.split(",")
    if "constants" in parts:
        session.run_constants()
    if "cases" in parts:
        session.run_cases()
    print(f"cases done, {session.left_s():.0f} s left", flush=True)
    session.run_sweep_and_caps("sweep" in parts, "caps" in parts)
    for log in (words.out / "logs").iterdir():
        if log.stat().st_size > 20_000:
            log.write_text(log.read_text()[-20_000:])
    print(f"done, {session.left_s():.0f} s left", flush=True)


if __name__ == "__main__":
    main()
