"""Times the op trace of three large models beside torch's own memory tracker on fake tensors.

    python bench/op_trace_time.py [--batch 16] [--only resnet152]

The op trace is the whole worker process: starting Python, importing torch, building the model, two
steps, writing the file. The tracker (torch.distributed._tools.mem_tracker) is timed in a process of
its own too, importing torch included, over one step on torch's fake tensors on the CPU, where
alone it works without a GPU. Prints seconds, the ratio and the peak RSS of both.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIMITS_S = {"resnet152": 3.0, "densenet121": 3.0, "gpt2_medium": 10.0}


def gpt2_medium(batch: int) -> tuple[Any, Any]:
    """24 blocks of width 1024 and 16 heads over 1024 tokens."""
    import torch
    from torch.nn import functional

    sys.path.insert(0, str(ROOT / "bench"))
    from models_torch import Gpt

    model = Gpt(width=1024, depth=24, heads=16)
    tokens = torch.randint(0, 50257, (batch, 1025))

    def loss() -> Any:
        scores = model(tokens[:, :-1])
        return functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())

    return model, loss


def make_spec(name: str, batch: int, folder: Path) -> bytes:
    """What the worker is asked for, as it reads it."""
    sys.path.insert(0, str(ROOT / "src"))
    from trainload.workload import assemble_workload
    from trainload_worker.protocol.spec import BuildSpec, SettingSpec, TraceSpec, dump_spec
    from trainload_worker.protocol.training import Optimizer, Training

    asked: dict[str, Any] = {
        "events_path": str(folder / "events.jsonl"),
        "framework": "torch",
        "setting": SettingSpec(),
        "trace_path": str(folder / "ops.jsonl.gz"),
        "target": "cuda",
        "iterations": 2,
        "limit_s": 120.0,
    }
    if name == "gpt2_medium":
        optimizer = Optimizer(name="adamw", learning_rate=0.001, weight_decay=0.0)
        training = Training(batch_size=batch, epochs=1, optimizer=optimizer)
        build = BuildSpec(path=str(Path(__file__).resolve()), function=name)
        return dump_spec(TraceSpec(**asked, source=build, training=training))
    workload = assemble_workload(name, {"batch_size": batch, "optimizer": "adamw"})
    graph, data = workload.graph.to_spec(), workload.data
    return dump_spec(TraceSpec(**asked, source=graph, data=data, training=workload.training))


def run_tracker(name: str, batch: int) -> None:
    """One step under torch's tracker; prints its peak in bytes."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker
    from torch.nn import functional

    with FakeTensorMode():
        if name == "gpt2_medium":
            model, loss = gpt2_medium(batch)
        else:
            model, inputs = _zoo_module(name), torch.randn(batch, 3, 224, 224)
            targets = torch.randint(0, 1000, (batch,))

            def loss() -> Any:
                return functional.cross_entropy(model(inputs), targets)

        optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
        tracker = MemTracker()
        tracker.track_external(model, optimizer)
        with tracker:
            loss().backward()
            optimizer.step()
            optimizer.zero_grad()
        peaks = tracker.get_tracker_snapshot("peak").values()
    print(max(int(one["Total"]) for one in peaks))


def _zoo_module(name: str) -> Any:
    sys.path.insert(0, str(ROOT / "src"))
    from trainload.workload import assemble_workload
    from trainload_worker.frameworks.torch.graph import GraphModule

    return GraphModule(assemble_workload(name, {"batch_size": 2}).graph.to_spec())


def time_process(command: list[str], given: bytes) -> tuple[float, float, int, str]:
    """Seconds, seconds on a core, peak RSS in bytes and output of a process."""
    start_s = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(given)
    child.stdin.close()
    output = child.stdout.read().decode()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{command[1:3]} ended with {child.returncode}")
    core_s = usage.ru_utime + usage.ru_stime
    return time.monotonic() - start_s, core_s, usage.ru_maxrss * 1024, output


def peak_of_trace(path: Path) -> int:
    """Most bytes held at once, as the tracker counts them: no rounding, no workspaces."""
    sys.path.insert(0, str(ROOT / "src"))
    from trainload.estimate.memory.op_trace import Allocation, Free, load_op_trace

    held: dict[int, int] = {}
    live = peak = 0
    for event in load_op_trace(path).events():
        if isinstance(event, Allocation):
            held[event.storage] = event.size_bytes
            live += event.size_bytes
            peak = max(peak, live)
        elif isinstance(event, Free):
            live -= held.pop(event.storage)
    return peak


def main() -> None:
    """Prints a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--only", choices=tuple(LIMITS_S))
    parser.add_argument("--tracker", choices=tuple(LIMITS_S), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.tracker:
        run_tracker(chosen.tracker, chosen.batch)
        return
    # The first import of torch after a while reads its files.
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    load = os.getloadavg()[0]
    print(f"batch {chosen.batch}, AdamW, float32; load of this machine before: {load:.1f}")
    for name, limit_s in LIMITS_S.items():
        if chosen.only in (None, name):
            _compare(name, chosen.batch, limit_s)
    print(f"this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


def _compare(name: str, batch: int, limit_s: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        given = make_spec(name, batch, Path(folder))
        trace_s, core_s, trace_rss, _ = time_process(
            [sys.executable, "-m", "trainload_worker"], given
        )
        peak = peak_of_trace(Path(folder) / "ops.jsonl.gz")
    own = [sys.executable, str(Path(__file__).resolve()), "--tracker", name]
    tracker_s, tracker_core_s, tracker_rss, said = time_process([*own, "--batch", str(batch)], b"")
    print(
        f"{name}: op trace {trace_s:.2f} s ({core_s:.2f} s on a core; limit {limit_s:g} s), "
        f"{trace_rss / 2**20:.0f} MiB RSS, "
        f"peak {peak / 2**20:.0f} MiB; MemTracker {tracker_s:.2f} s ({tracker_core_s:.2f} s), "
        f"{tracker_rss / 2**20:.0f} MiB RSS, peak {int(said) / 2**20:.0f} MiB; "
        f"{tracker_s / trace_s:.1f} times as long"
    )


if __name__ == "__main__":
    main()
