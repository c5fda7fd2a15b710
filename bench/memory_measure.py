"""Measures one thing each in this process, which memory_truth.py has started; decides nothing.

What is written is described there.
"""

from __future__ import annotations

import faulthandler
import gc
import gzip
import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

import memory_cases
import memory_recorder as recorder
import memory_sweep

CASE_TIMEOUT_S = 45
SWEEP_BATCH = 25
CACHE_BYTES = 6 << 30  # of each sweeping process: several share the device with capped cases


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

    def run(self, used: recorder.DeviceMemory, points: list[dict[str, Any]]) -> None:
        """Three steps, with a point before them and after each."""
        points.append(recorder.read_point(used, "model"))
        for number in (1, 2, 3):
            recorder.reset_peaks()
            self.step()
            points.append(recorder.read_point(used, f"step{number}"))


def _wait_for_go(told: bool) -> None:
    if told:
        print("ready", flush=True)
        sys.stdin.readline()


def _start_cuda() -> None:
    if recorder.has_cuda():
        torch.cuda.init()
        torch.cuda.synchronize()


def load_cases(module: str) -> Any:
    """Where the cases of a session stand: memory_cases.py, or memory_families.py."""
    return importlib.import_module(module)


def measure_case(name: str, folder: Path, device: str, cases: Any, told: bool) -> None:
    """One case in this process, from before CUDA starts."""
    case = cases.find_case(name)
    result: dict[str, Any] = {"case": vars(case) | {"name": case.name}, "error": None}
    points: list[dict[str, Any]] = []
    ops = recorder.OpRecorder()
    used = recorder.DeviceMemory()
    try:
        if device == "cpu":
            case = memory_cases.Case(**(vars(case) | {"batch": 2}))
        module, loss = cases.build_case(case)
        _wait_for_go(told)
        faulthandler.dump_traceback_later(CASE_TIMEOUT_S - 10)
        began = time.monotonic()
        points.append({"at": "idle", "nvml_used": used.used_bytes()})
        _start_cuda()
        recorder.start_history()
        points.append(recorder.read_point(used, "context"))
        training = Training(case, module, loss, device)
        training.run(used, points)
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
        training.run(used, points)
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
