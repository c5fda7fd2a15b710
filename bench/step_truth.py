"""Measures time and energy of training steps on an NVIDIA GPU: what predictions are held against.

    PYTHONPATH=src python3 bench/step_truth.py --out FOLDER [--limit-s 330] [--seconds 2]
    PYTHONPATH=src python3 bench/step_truth.py --out FOLDER --traces
    PYTHONPATH=src python3 bench/step_truth.py --out FOLDER --profile [--limit-s 330]

Models are those of memory_cases.py; torchvision and transformers are needed for theirs. Each case
is trained for `--seconds` after its warm-up, in blocks between which the device is waited for: the
loop that a script has, no step waited for by itself. steps.jsonl gets a line for each: the median
over blocks of a step's seconds, the mean power and a step's energy by the board's own counter.
`--traces` leaves the op trace of each case (CASE.ops.jsonl.gz), made on tensors without numbers by
as many processes as half of the cores. `--profile` says where the time goes: profile.jsonl has for
each case what the host takes to dispatch a step (`host_s`, nothing waited for), and of one step
under torch's profiler the operations by name, shapes and types with their count, the seconds of
their kernels and how many kernels these were. A second call with the same folder goes on.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import shutil
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import memory_cases
from memory_cases import Case

TABLE = """
resnet: resnet18 8 sgd float32; resnet18 256 adam bf16; resnet18 128 momentum fp16
resnet: resnet50 2 sgd float32; resnet50 64 adam float32; resnet50 128 momentum bf16
resnet: resnet50 256 sgd fp16; resnet50_channels_last 128 momentum bf16
resnet: resnet50_channels_last 32 adam float32; resnet152 16 adamw float32; resnet152 64 sgd bf16
densenet: densenet121 32 momentum float32; densenet121 64 adam bf16; densenet121 4 sgd fp16
vgg: vgg16 64 sgd float32; vgg16 64 adam bf16; alexnet 256 momentum float32
vgg: alexnet 1024 adam bf16; alexnet 16 sgd fp16
inception: inception_v3 32 adam float32; inception_v3 64 sgd bf16; zoo_googlenet 64 sgd float32
inception: squeezenet1_1 256 sgd float32; squeezenet1_1 64 adam bf16
mobile: mobilenet_v3_large 128 adamw float32; mobilenet_v3_large 256 sgd bf16
mobile: mobilenet_v3_large 16 sgd fp16; efficientnet_b0 64 adam float32
mobile: efficientnet_b0 128 sgd bf16
mobile: shufflenet_v2_x1_0 128 sgd float32
grouped: regnet_y_800mf 64 adam float32; regnet_y_800mf 128 sgd bf16
grouped: resnext50_32x4d 32 adamw bf16; resnext50_32x4d 64 sgd float32
grouped: convnext_tiny 32 adamw bf16; convnext_tiny 64 sgd float32
vit: vit_b_16 32 adamw float32; vit_b_16 128 adam bf16; vit_b_16 64 adamw fp16
vit: swin_t 32 adamw bf16; swin_t 64 momentum float32; vit_base 32 sgd bf16
bert: bert_base_128 32 adamw float32; bert_base_128 128 adamw bf16; bert_base_128 8 adamw fp16
bert: bert_base_512 16 adamw bf16; distilbert_128 64 adam bf16; distilbert_128 16 sgd float32
gpt: gpt2_512 8 adamw float32; gpt2_1024 16 adamw bf16; gpt2_512 2 adamw fp16
gpt: gpt2_medium_512 4 adamw float32; gpt2_medium_512 16 adam bf16
gpt: llama_small_512 8 adamw bf16; llama_small_512 4 sgd float32
gpt: gpt_plain 16 adamw bf16; gpt_plain 8 adam float32
t5: t5_small_256 16 adam float32; t5_small_256 64 adamw bf16
t5: zoo_transformer_encoder 64 adam float32; zoo_transformer_encoder 256 adamw bf16
recurrent: zoo_lstm_lm 64 sgd float32; zoo_lstm_lm 32 adam bf16; zoo_recurrent 64 adam float32
recurrent: gru_tagger 128 adam float32; gru_tagger 512 momentum fp16
dense: zoo_mlp 256 adam float32; zoo_mlp 8192 adam bf16; zoo_fully_connected 128 adamw bf16
dense: zoo_lenet5 256 sgd float32
other: unet 16 adam float32; unet 32 adamw bf16
other: time_convolutions 64 adam float32; time_convolutions 128 momentum bf16
"""


def read_table(text: str = TABLE) -> dict[str, list[Case]]:
    """The cases of each family."""
    found: dict[str, list[Case]] = {}
    for line in text.strip().splitlines():
        family, _, rows = line.partition(": ")
        for row in filter(None, (one.split() for one in rows.split(";"))):
            model, batch, optimizer, precision = row
            case = Case(model=model, batch=int(batch), optimizer=optimizer, precision=precision)
            found.setdefault(family, []).append(case)
    return found


class Training:
    """One case on the device, made there."""

    def __init__(self, case: Case, device: str) -> None:
        import torch

        self.case, self.device = case, device
        with torch.device(device):
            module, self.loss = getattr(memory_cases, case.model)(case.batch)
        self.module = module.to(device).train()
        for cell in self.loss.__closure__ or ():
            if isinstance(cell.cell_contents, torch.Tensor):
                cell.cell_contents = cell.cell_contents.to(device)
        self.optimizer = memory_cases.make_optimizer(case.optimizer, module.parameters())
        halves = {"bf16": torch.bfloat16, "fp16": torch.float16}
        self.half = halves.get(case.precision)
        self.scaler = torch.amp.GradScaler(device) if case.precision == "fp16" else None

    def step(self) -> None:
        """Gradients to none, forward, backward, update: the order that torch's tutorials have."""
        import torch

        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, self.half, enabled=self.half is not None):
            value = self.loss()
        if self.scaler is None:
            value.backward()
            self.optimizer.step()
        else:
            self.scaler.scale(value).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()


def measure(case: Case, device: str, seconds: float, energy_j: Any) -> dict[str, Any]:
    """One case after its warm-up; what goes wrong is raised."""
    import torch

    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    training = Training(case, device)
    began = time.perf_counter()
    warm = 0
    while warm < 6 or (time.perf_counter() - began < 0.4 and warm < 200):
        training.step()
        warm += 1
        wait()
    wait()
    began = time.perf_counter()
    for _ in range(3):
        training.step()
    wait()
    rough_s = (time.perf_counter() - began) / 3
    each = max(1, round(seconds / 8 / rough_s))
    times, first_j, start = [], energy_j(), time.perf_counter()
    for _ in range(8):
        began = time.perf_counter()
        for _ in range(each):
            training.step()
        wait()
        times.append((time.perf_counter() - began) / each)
    whole_s, used_j = time.perf_counter() - start, energy_j()
    found: dict[str, Any] = {
        "step_s": statistics.median(times),
        "shortest_s": min(times),
        "longest_s": max(times),
        "steps": 8 * each,
    }
    if first_j is not None:
        found["power_w"] = (used_j - first_j) / whole_s
        found["energy_j"] = (used_j - first_j) / (8 * each)
    return found


def profile(case: Case, device: str, folder: Path) -> dict[str, Any]:
    """What the host takes for a step, and the kernels of each operation in one."""
    import torch

    training = Training(case, device)
    for _ in range(6):
        training.step()
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    hosts = []
    for _ in range(7):
        wait()
        began = time.perf_counter()
        training.step()
        hosts.append(time.perf_counter() - began)
    wait()
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if device == "cuda":
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=kinds, record_shapes=True) as seen:
        training.step()
        wait()
    path = folder / "trace.json"
    seen.export_chrome_trace(str(path))
    rows = kernels_of(json.loads(path.read_text())["traceEvents"])
    path.unlink()
    return {"host_s": min(hosts), "operations": rows}


def kernels_of(events: list[dict[str, Any]]) -> list[list[Any]]:
    """Operations by name, shapes and types: [name, shapes, types, count, kernels, seconds]."""
    named, sums = {}, {}
    for event in events:
        if event.get("cat") == "cpu_op":
            named[event["args"].get("External id")] = event
    for event in named.values():
        key = _key(event)
        sums.setdefault(key, [0, 0, 0.0])[0] += 1
    for event in events:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            owner = named.get(event["args"].get("External id"))
            found = sums.setdefault(("", "", "") if owner is None else _key(owner), [0, 0, 0.0])
            found[1] += 1
            found[2] += event["dur"] / 1e6
    return [[*key, *found] for key, found in sums.items() if found[1] or "aten::" in key[0]]


def _key(event: dict[str, Any]) -> tuple[str, str, str]:
    asked = event["args"]
    return (
        event["name"],
        json.dumps(asked.get("Input Dims")),
        json.dumps(asked.get("Input type")),
    )


def energy_counter(device: str) -> Any:
    """Joules that the board has used; None each time where there is no such counter."""
    if device != "cuda":
        return lambda: None
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    return lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000


def measure_all(words: argparse.Namespace) -> None:
    """Every case that steps.jsonl lacks, in a seeded order, until the time is up."""
    import torch

    lines = words.out / ("profile.jsonl" if words.profile else "steps.jsonl")
    done = set()
    if lines.exists():
        done = {json.loads(line)["case"] for line in lines.read_text().splitlines()}
    order = [(family, case) for family, cases in read_table().items() for case in cases]
    random.Random(5).shuffle(order)
    energy_j = energy_counter(words.device)
    began = time.monotonic()
    for family, case in order:
        if case.name in done or time.monotonic() - began > words.limit_s:
            continue
        row = {"case": case.name, "family": family}
        try:
            if words.profile:
                row |= profile(case, words.device, words.out)
            else:
                row |= measure(case, words.device, words.seconds, energy_j)
        except Exception as error:  # noqa: BLE001 - of libraries: the row says so
            row["missing"] = f"{type(error).__name__}: {error}"[:300]
        with lines.open("a") as out:
            out.write(json.dumps(row) + "\n")
        figure_s = row.get("host_s" if words.profile else "step_s")
        print(case.name, row.get("missing") or f"{1e3 * figure_s:.3f} ms", flush=True)
        gc.collect()
        if words.device == "cuda":
            torch.cuda.empty_cache()


def trace(case: Case, out: Path) -> str:
    """The op trace of one case as a file; the name, with why there is none."""
    import torch

    from trainload.api.estimating.sources import ModuleSource
    from trainload.api.estimating.study import choose_optimizer
    from trainload.api.in_process import fork_op_trace
    from trainload.estimate.counts.answer import StepChoice
    from trainload.estimate.memory.device import find_device_memory
    from trainload.hardware.catalogue import find_device
    from trainload.run import OpTraceRequest

    torch.set_num_threads(1)
    place = out / f"{case.name}.ops.jsonl.gz"
    folder = out / f"{case.name}.folder"
    try:
        module, loss = getattr(memory_cases, case.model)(case.batch)
        named = {"momentum": ("sgd", 0.9), "sgd": ("sgd", 0.0)}.get(case.optimizer)
        optimizer = choose_optimizer(*(named or (case.optimizer, 0.9)))
        choice = StepChoice(batch_size=case.batch, precision=case.precision, optimizer=optimizer)
        step = ModuleSource(module=module.train(), loss=loss).step(choice)
        memory = find_device_memory(find_device("h200"))
        request = OpTraceRequest(
            source=step.build,
            python="",
            target=memory.target,
            capability=memory.capability,
            limit_s=120.0,
            checkpoint_blocks=False,
        )
        shutil.move(fork_op_trace(request, step, folder, lambda _text: None).path, place)
    except Exception as error:  # noqa: BLE001 - of libraries: the row says so
        return f"{case.name}: {type(error).__name__}: {error}"[:300]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return case.name


def trace_all(words: argparse.Namespace) -> None:
    """Every case whose trace is not there yet."""
    cases = [case for cases in read_table().values() for case in cases]
    left = [case for case in cases if not (words.out / f"{case.name}.ops.jsonl.gz").exists()]
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        for name in pool.map(trace, left, [words.out] * len(left)):
            print(name, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--limit-s", type=float, default=330.0)
    parser.add_argument("--traces", action="store_true")
    parser.add_argument("--profile", action="store_true")
    words = parser.parse_args()
    words.out.mkdir(parents=True, exist_ok=True)
    if words.traces:
        trace_all(words)
    else:
        measure_all(words)


if __name__ == "__main__":
    main()
