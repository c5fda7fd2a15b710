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
import faulthandler
import gc
import gzip
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

import memory_cases
import memory_recorder as recorder
import memory_sweep

PARTS = ("constants", "cases", "sweep", "caps")
AHEAD = 8
CAPPED_AT_ONCE = 4
CONVOLUTION_SHARDS = 3
CASE_TIMEOUT_S = 45
SWEEP_BATCH = 25
CACHE_BYTES = 6 << 30  # of each sweeping process: several share the device with capped cases
CAPPED = """
resnet50-b64-adam-float32 densenet121-b32-momentum-float32 vgg16-b64-sgd-float32
efficientnet_b0-b64-adam-float32 vit_b_16-b64-adam-bf16 bert_base_128-b32-adamw-float32
gpt2_512-b8-adamw-float32 t5_small_256-b32-adamw-bf16 unet-b16-adam-float32
inception_v3-b32-adam-float32 resnet18-b128-momentum-float32 zoo_lstm_lm-b64-sgd-float32
"""


def _software() -> dict[str, Any]:
    versions = {
        name: getattr(sys.modules.get(name), "__version__", None)
        for name in ("torch", "torchvision", "transformers")
    }
    found: dict[str, Any] = {**versions, "python": sys.version.split()[0]}
    asked = {
        "cuda": lambda: torch.version.cuda,
        "cudnn": torch.backends.cudnn.version,
        "device": lambda: torch.cuda.get_device_properties(0).name,
        "device_total_bytes": lambda: torch.cuda.get_device_properties(0).total_memory,
        "allocator": torch.cuda.get_allocator_backend,
        "tf32_convolution": lambda: torch.backends.cudnn.allow_tf32,
        "tf32_matmul": lambda: torch.backends.cuda.matmul.allow_tf32,
        "allocator_settings": lambda: os.environ.get("PYTORCH_CUDA_ALLOC_CONF"),
    }
    for key, ask in asked.items() if recorder.has_cuda() else ():
        try:
            found[key] = ask()
        except RuntimeError as error:  # a setting that another one has replaced
            found[key] = str(error)[:80]
    return found


def _move(loss: Any, device: str) -> None:
    """The example batch that a loss function holds, onto the device."""
    for cell in loss.__closure__ or ():
        if isinstance(cell.cell_contents, torch.Tensor):
            cell.cell_contents = cell.cell_contents.to(device)


class Training:
    """One case on the device: weights, batch, optimizer, and a step."""

    def __init__(self, case: memory_cases.Case, module: Any, loss: Any, device: str) -> None:
        self.case, self.device, self.loss = case, device, loss
        module.to(device)
        _move(loss, device)
        self.optimizer = memory_cases.make_optimizer(case.optimizer, module.parameters())

    def step(self, ops: recorder.OpRecorder | None = None) -> None:
        """Gradients to none, forward, backward, update: the order that torch's tutorials have."""
        self.optimizer.zero_grad(set_to_none=True)
        bf16 = self.case.precision == "bf16"
        with (
            recorder.phase(ops, "forward"),
            torch.autocast(self.device, torch.bfloat16, enabled=bf16),
        ):
            value = self.loss()
        with recorder.phase(ops, "backward"):
            value.backward()
        with recorder.phase(ops, "update"):
            self.optimizer.step()


def _wait_for_go(told: bool) -> None:
    if told:
        print("ready", flush=True)
        sys.stdin.readline()


def _start_cuda() -> None:
    if recorder.has_cuda():
        torch.cuda.init()
        torch.cuda.synchronize()


def measure_case(name: str, folder: Path, device: str, told: bool) -> None:
    """One case in this process, from before CUDA starts."""
    case = memory_cases.find_case(name)
    result: dict[str, Any] = {"case": vars(case) | {"name": case.name}, "error": None}
    points: list[dict[str, Any]] = []
    ops = recorder.OpRecorder()
    used = recorder.DeviceMemory()
    try:
        if device == "cpu":
            case = memory_cases.Case(**(vars(case) | {"batch": 2}))
        module, loss = memory_cases.build_case(case)
        _wait_for_go(told)
        faulthandler.dump_traceback_later(CASE_TIMEOUT_S - 10)
        began = time.monotonic()
        points.append({"at": "idle", "nvml_used": used.used_bytes()})
        _start_cuda()
        recorder.start_history()
        points.append(recorder.read_point(used, "context"))
        training = Training(case, module, loss, device)
        points.append(recorder.read_point(used, "model"))
        for number in (1, 2, 3):
            recorder.reset_peaks()
            training.step()
            points.append(recorder.read_point(used, f"step{number}"))
        if not _is_recurrent(case.model):
            with ops:
                training.step(ops)
        points.append(recorder.read_point(used, "recorded"))
        result["gpu_s"] = time.monotonic() - began
        result["software"] = _software()
    except Exception as error:  # noqa: BLE001  # any failure is this case's result
        result["error"] = f"{type(error).__name__}: {str(error)[:500]}"
    result["points"] = points
    _save(folder, name, result, ops.rows)


def _is_recurrent(model: str) -> bool:
    """Whether cuDNN's recurrent kernels run: under a dispatch mode they do not end (torch 2.11)."""
    return any(word in model for word in ("lstm", "recurrent", "gru"))


def _save(folder: Path, name: str, result: dict[str, Any], ops: list[Any] | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    head = {key: result.get(key) for key in ("case", "points", "cap_bytes", "outcome")}
    recorder.save_lines(folder / f"{name}.history.jsonl.gz", head, recorder.read_history())
    if ops is not None:
        recorder.save_lines(folder / f"{name}.ops.jsonl.gz", head, ops)
    (folder / f"{name}.json").write_text(json.dumps(result, indent=1))


def measure_capped(name: str, cap_bytes: int, folder: Path, device: str) -> None:
    """Three steps with the allocator held to `cap_bytes`; whether they went through."""
    case = memory_cases.find_case(name)
    label = f"{name}-{cap_bytes}"
    result: dict[str, Any] = {"case": vars(case) | {"name": name}, "cap_bytes": cap_bytes}
    points: list[dict[str, Any]] = []
    result |= {"points": points, "error": None, "outcome": None}
    used = recorder.DeviceMemory()
    try:
        module, loss = memory_cases.build_case(case)
        _start_cuda()
        total = torch.cuda.mem_get_info()[1] if device == "cuda" else 0
        if device == "cuda":
            # Half a byte more, so that cutting the product to whole bytes gives the cap again.
            torch.cuda.set_per_process_memory_fraction((cap_bytes + 0.5) / total)
        recorder.start_history()
        result["total_bytes"] = total
        training = Training(case, module, loss, device)
        points.append(recorder.read_point(used, "model"))
        for number in (1, 2, 3):
            recorder.reset_peaks()
            training.step()
            points.append(recorder.read_point(used, f"step{number}"))
        result["outcome"] = "fits"
    except torch.OutOfMemoryError as error:
        result["outcome"], result["message"] = "out_of_memory", str(error)[:400]
        points.append(recorder.read_point(used, "out of memory"))
    except Exception as error:  # noqa: BLE001  # any failure is this case's result
        result["error"] = f"{type(error).__name__}: {str(error)[:500]}"
    _save(folder, label, result, None)


def measure_constants(folder: Path, device: str) -> None:
    """What CUDA and its libraries take before a model does."""
    used = recorder.DeviceMemory()
    points: list[dict[str, Any]] = [{"at": "idle", "nvml_used": used.used_bytes()}]
    _start_cuda()
    recorder.start_history()
    points.append(recorder.read_point(used, "context"))
    kept: list[Any] = []
    wide = torch.bfloat16
    stages = {
        "first allocation": lambda: torch.empty(256, device=device),
        "first kernel": lambda: torch.randn(256, 256, device=device),
        "matmul float32": lambda: kept[-1] @ kept[-1],
        "matmul bf16": lambda: kept[1].to(wide) @ kept[1].to(wide),
        "linear with bias bf16": lambda: torch.nn.functional.linear(
            kept[1].to(wide), kept[1].to(wide), kept[0].to(wide)
        ),
        "matmul backward": lambda: (
            (kept[1].clone().requires_grad_() @ kept[1]).sum().backward() or kept[1]
        ),
        "convolution": lambda: _small_convolution(device, torch.float32),
        "convolution bf16": lambda: _small_convolution(device, wide),
        "attention bf16": lambda: torch.nn.functional.scaled_dot_product_attention(
            *[torch.randn(2, 4, 64, 64, device=device, dtype=wide) for _ in range(3)]
        ),
        "lstm": lambda: torch.nn.LSTM(64, 64).to(device)(torch.randn(8, 4, 64, device=device))[0],
        "foreach": lambda: torch._foreach_add([kept[0]] * 3, 1.0)[0],
    }
    for what, run in stages.items():
        try:
            kept.append(run())
        except Exception as error:  # noqa: BLE001  # the other stages still count
            kept.append(kept[-1])
            points.append({"at": what, "error": str(error)[:300]})
        points.append(recorder.read_point(used, what))
    result = {"points": points, "software": _software(), "history": recorder.read_history()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "constants.json").write_text(json.dumps(result))


def _small_convolution(device: str, dtype: Any) -> Any:
    layer = torch.nn.Conv2d(16, 16, 3).to(device, dtype)
    value = layer(torch.randn(4, 16, 32, 32, device=device, dtype=dtype))
    value.sum().backward()
    return value.detach()


def measure_sweep(group: str, folder: Path, device: str, until: float) -> None:
    """The trials of a group until they or the time run out."""
    torch.set_default_device(device)
    _start_cuda()
    folder.mkdir(parents=True, exist_ok=True)
    batch: list[dict[str, Any]] = []
    start = recorder.start_history()
    with gzip.open(folder / f"{group}.jsonl.gz", "wt") as stream:
        for count, trial in enumerate(memory_sweep.trials(group)):
            if time.time() > until or (device == "cpu" and count >= 2):
                break
            batch.append(_run_trial(trial))
            if len(batch) == SWEEP_BATCH:
                _write_batch(stream, batch, start)
                batch, start = [], recorder.start_history()
        _write_batch(stream, batch, start)


def _run_trial(trial: memory_sweep.Trial) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": trial.kind, "options": trial.options, "error": None}
    runs: list[list[Any]] = []
    try:
        run = trial.prepare()
        record = _run_whole if trial.kind == "recurrent" else _run_recorded
        runs.extend(record(run) for _ in range(2))
    except Exception as error:  # noqa: BLE001  # any failure is this trial's result
        row["error"] = f"{type(error).__name__}: {str(error)[:300]}"
    row["runs"] = runs
    if recorder.read_stats()["reserved"] > CACHE_BYTES:
        gc.collect()
        torch.cuda.empty_cache()
    return row


def _run_recorded(run: Any) -> list[Any]:
    ops = recorder.OpRecorder()
    with ops:
        run()
    return ops.rows


def _run_whole(run: Any) -> list[Any]:
    """One row for all of it, of the same form: see `_is_recurrent`."""
    recorder.reset_peaks()
    before = recorder.read_stats()
    run()
    after = recorder.read_stats()
    position = [before["allocs"] + before["frees"], after["allocs"] + after["frees"]]
    held = [before["allocated"], after["allocated"], after["allocated_peak"], after["reserved"]]
    return [["whole", "both", [], [], [], *position, *held]]


def _write_batch(stream: Any, batch: list[dict[str, Any]], start: int) -> None:
    """Each operation with the events between its two positions."""
    events = recorder.read_history()
    index_of = recorder.split_positions(events, start)
    for row in batch:
        for op in (op for run in row["runs"] for op in run):
            inside = events[index_of.get(op[5], 0) : index_of.get(op[6], 0)]
            op.append([[code, size, address] for code, size, address, _ in inside])
        stream.write(json.dumps(row, separators=(",", ":")) + "\n")
    stream.flush()


class Session:
    """Starts the measuring processes one after the other, or several at once, within the limit."""

    def __init__(self, out: Path, device: str, limit_s: float, only: list[str]) -> None:
        self.out, self.device, self.only = out, device, only
        self.end = time.time() + limit_s
        self.environment = {
            **os.environ,
            "OMP_NUM_THREADS": "4",
            "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        }
        (out / "logs").mkdir(parents=True, exist_ok=True)

    def _spawn(self, label: str, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, __file__, "--out", str(self.out), "--device", self.device]
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
        names = [case.name for case in memory_cases.CASES if self._wanted(case.name)]
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
        ready = select.select([child.stdout], [], [], CASE_TIMEOUT_S)[0]
        waited_s = time.time() - began
        if ready:
            try:
                child.stdin.write("go\n")
                child.stdin.flush()
            except BrokenPipeError:
                pass
        _finish(child, max(5, min(CASE_TIMEOUT_S, self.left_s() - 3)))
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
        measure_constants(words.out, words.device)
    elif kind == "case":
        measure_case(rest, words.out / "cases", words.device, told=True)
    elif kind == "sweep":
        measure_sweep(rest, words.out / "sweep", words.device, words.until)
    else:
        name, cap = rest.rsplit(":", 1)
        measure_capped(name, int(cap), words.out / "caps", words.device)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--limit-s", type=float, default=540.0)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--parts", default=",".join(PARTS), help="of " + ", ".join(PARTS))
    parser.add_argument("--only", nargs="*", default=[], help="cases whose name has such a word")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.child:
        _run_child(words)
        return
    session = Session(words.out, words.device, words.limit_s, words.only)
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
