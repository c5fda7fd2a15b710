"""What layers cost and explain: trainload's windows beside torch.profiler on every step and beside
the usual backward hooks, for each case in one process, alternating.

    python bench/layers.py --device cpu --out layers-cpu        measures, then prints the table
    python bench/layers.py --device cuda --out layers-gpu --no-table
    python bench/layers.py --table layers-gpu                   the table of a folder from elsewhere

Measuring needs torch and psutil alone, so that it runs where the reading half is not installed.
Leaves one run directory for each case, and `<case>.json` with the times of all blocks.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # read when torch is loaded

import torch

import layer_cases

ROUNDS = 16
BLOCKS = {"plain": 1, "windows": 3, "profiler": 1, "hooks": 1}
"""Blocks of equal length in a round, by what watches them; windows are rare and need more."""
FEWEST_STEPS = 4
BUDGET = 0.03


class Clock:
    """Seconds that passed while windows were on: blocks of the others do not count as training."""

    def __init__(self) -> None:
        self._off_s = time.monotonic()
        self._skipped_s = 0.0

    def __call__(self) -> float:
        """Now, on this clock."""
        return time.monotonic() - self._skipped_s

    def pause(self) -> None:
        """Windows are off from here on."""
        self._off_s = time.monotonic()

    def resume(self) -> None:
        """Windows are on again."""
        self._skipped_s += time.monotonic() - self._off_s


class CaseBench:
    """One case under each of the four, block by block."""

    def __init__(
        self, name: str, case: Any, device: str, out: Path, budget: float = BUDGET
    ) -> None:
        self._case, self._device, self._budget = case, device, budget
        self._run = self._make_run(name, out)
        self._clock = Clock()
        self._windows = self._make_probe()
        self._steps = 0
        self.blocks: list[dict[str, Any]] = []
        self.hooks_error: str | None = None

    def _make_run(self, name: str, out: Path) -> Any:
        from trainload._version import __version__
        from trainload.hardware import read_machine
        from trainload.record import Clock as RunClock
        from trainload.record import LayerTracing, Manifest, create_run_directory
        from trainload.workload import RecordedWatch

        manifest = Manifest(
            created=time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
            trainload_version=__version__,
            framework="torch",
            workload=RecordedWatch(model=name, watched={"bench": "layers"}),
            machine=read_machine(),
            clock=RunClock(start_s=time.monotonic(), start_wall_s=time.time()),
            layers=LayerTracing(budget=self._budget),
        )
        return create_run_directory(out, name, manifest)

    def _make_probe(self) -> Any:
        from trainload.record import layout
        from trainload_worker.frameworks.torch.layers import LayerProbe
        from trainload_worker.process.events import EventWriter
        from trainload_worker.protocol.spec import LayersSpec

        self._events = EventWriter(str(self._run.path / layout.EVENTS))
        spec = LayersSpec(self._budget, str(self._run.path.resolve()), layout.window_form(0))
        return LayerProbe(self._events, spec, clock=self._clock)

    def measure(self, seconds: float) -> None:
        """All rounds; the order is turned round each time, so that drift cancels."""
        self._block("warm", 20, lambda: None)
        step_s = self.blocks[-1]["seconds"] / 20
        self._block("warm", max(5, int(2.0 / step_s)), lambda: None)
        step_s = self.blocks[-1]["seconds"] / self.blocks[-1]["steps"]
        # Under the profiler and the hooks steps take some two to three times as long.
        planned_s = seconds / ROUNDS / (sum(BLOCKS.values()) + 3)
        count = max(FEWEST_STEPS, int(planned_s / step_s))
        end_s = time.monotonic() + seconds
        for number in range(ROUNDS):
            order = [name for name, blocks in BLOCKS.items() for _ in range(blocks)]
            random.Random(number).shuffle(order)
            for watcher in order:
                getattr(self, f"_under_{watcher}")(count)
            if time.monotonic() > end_s and number >= 3:
                break
        self._windows.finish()

    def run_windows(self, seconds: float) -> None:
        """Windows alone, for as long."""
        self._block("warm", 20, lambda: None)
        step_s = self.blocks[-1]["seconds"] / 20
        self._under_windows(max(30, int(seconds / step_s)))
        self._windows.finish()

    def _under_plain(self, steps: int) -> None:
        self._block("plain", steps, lambda: None)

    def _under_windows(self, steps: int) -> None:
        """The product: hooks on the optimizer, a traced window now and then."""
        from trainload_worker.frameworks.torch.backend import HostStepClock
        from trainload_worker.frameworks.torch.clock import CudaStepClock
        from trainload_worker.training.loop import FLUSH_PERIOD_S, StepLog

        device = torch.device(self._device)
        ends = CudaStepClock(device) if device.type == "cuda" else HostStepClock()
        log = StepLog(ends, self._events, 0, self._steps)
        self._clock.resume()
        self._windows.attach()
        log.begin(time.monotonic())
        due_s = time.monotonic() + FLUSH_PERIOD_S

        def after() -> None:
            nonlocal due_s
            ends.mark(None)
            if time.monotonic() >= due_s:
                log.flush(drain=False)
                due_s = time.monotonic() + FLUSH_PERIOD_S

        self._block("windows", steps, after)
        self._windows.detach()
        self._clock.pause()
        log.flush(drain=True)
        self._steps += steps

    def _under_profiler(self, steps: int) -> None:
        """torch.profiler on every step, its trace written out at the end of each step's cycle."""
        from torch.profiler import profile, schedule

        with tempfile.TemporaryDirectory() as folder:

            def save(profiler: Any) -> None:
                profiler.export_chrome_trace(f"{folder}/trace.json")

            every = schedule(wait=0, warmup=1, active=9)
            with profile(schedule=every, on_trace_ready=save) as profiler:
                self._block("profiler", steps, profiler.step)

    def _under_hooks(self, steps: int) -> None:
        """Forward and full backward hooks on every leaf, timed by events (CPU: the clock)."""
        if self.hooks_error is not None:
            return
        hooks = LeafHooks(self._case.model, self._device)
        try:
            self._block("hooks", steps, hooks.collect)
            self.blocks[-1]["explained_s"] = hooks.total_s()
        except RuntimeError as error:
            self.hooks_error = str(error).splitlines()[0][:200]
            self._case.optimizer.zero_grad()
        finally:
            hooks.remove()

    def _block(self, watcher: str, steps: int, after: Callable[[], None]) -> None:
        self._settle()
        start_s = time.perf_counter()
        for _ in range(steps):
            self._case.step()
            after()
        self._settle()
        seconds = time.perf_counter() - start_s
        self.blocks.append({"watcher": watcher, "steps": steps, "seconds": seconds})

    def _settle(self) -> None:
        if self._device == "cuda":
            torch.cuda.synchronize()

    def close(self) -> Path:
        """Close the run directory; where it is."""
        self._events.close()
        from dataclasses import replace

        manifest = self._run.manifest
        clock = replace(manifest.clock, end_s=time.monotonic())
        self._run.close(replace(manifest, outcome="completed", clock=clock))
        return Path(self._run.path)


class LeafHooks:
    """The usual way: a timer around each leaf's forward and backward."""

    def __init__(self, model: Any, device: str) -> None:
        self._cuda = device == "cuda"
        self._open: dict[tuple[int, str], Any] = {}
        self._pairs: list[tuple[Any, Any]] = []
        self._done_s = 0.0
        self._handles = []
        for module in model.modules():
            if next(module.children(), None) is None:
                self._handles += [
                    module.register_forward_pre_hook(self._begin("f")),
                    module.register_forward_hook(self._end("f")),
                    module.register_full_backward_pre_hook(self._begin("b")),
                    module.register_full_backward_hook(self._end("b")),
                ]

    def _now(self) -> Any:
        if not self._cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _begin(self, phase: str) -> Callable[..., None]:
        def hook(module: Any, *_: Any) -> None:
            self._open[id(module), phase] = self._now()

        return hook

    def _end(self, phase: str) -> Callable[..., None]:
        def hook(module: Any, *_: Any) -> None:
            start = self._open.pop((id(module), phase), None)
            if start is not None:
                self._pairs.append((start, self._now()))

        return hook

    def collect(self) -> None:
        """Sum up what is finished, as such tools do after each step."""
        if self._cuda:
            torch.cuda.synchronize()
            self._done_s += sum(a.elapsed_time(b) for a, b in self._pairs) / 1000
        else:
            self._done_s += sum(b - a for a, b in self._pairs)
        self._pairs.clear()

    def total_s(self) -> float:
        """Seconds of all layers, forward and backward."""
        return self._done_s

    def remove(self) -> None:
        """Take all hooks away."""
        for handle in self._handles:
            handle.remove()


def measure(device: str, out: Path, seconds: float, only: list[str]) -> None:
    """Run every case and leave its directory and its blocks."""
    cases = layer_cases.GPU_CASES if device == "cuda" else layer_cases.CPU_CASES
    out.mkdir(parents=True, exist_ok=True)
    for order, (name, build) in enumerate(cases.items()):
        if only and name not in only:
            continue
        torch.manual_seed(0)
        bench = CaseBench(name, build(device), device, out)
        bench.measure(seconds)
        path = bench.close()
        result = {
            "case": name,
            "device": device,
            "run": path.name,
            "order": order,
            "torch": torch.__version__,
            "blocks": bench.blocks,
            "hooks_error": bench.hooks_error,
        }
        (out / f"{name}.json").write_text(json.dumps(result, indent=1))
        print(f"{name}: measured {render_costs(result)}", flush=True)
        del bench
        if device == "cuda":
            torch.cuda.empty_cache()


def costs(result: dict[str, Any]) -> dict[str, float]:
    """Step time under each watcher over that of plain steps, less 1: all rounds together.

    Medians would leave out the few blocks with windows in them.
    """
    seconds: dict[str, float] = {}
    steps: dict[str, int] = {}
    for block in result["blocks"]:
        seconds[block["watcher"]] = seconds.get(block["watcher"], 0.0) + block["seconds"]
        steps[block["watcher"]] = steps.get(block["watcher"], 0) + block["steps"]
    step_s = {watcher: seconds[watcher] / steps[watcher] for watcher in seconds}
    found = {
        watcher: step_s[watcher] / step_s["plain"] - 1
        for watcher in ("windows", "profiler", "hooks")
        if watcher in step_s
    }
    found["step_s"] = step_s["plain"]
    explained_s = [block["explained_s"] for block in result["blocks"] if "explained_s" in block]
    if explained_s:
        found["hooks_explained"] = sum(explained_s) / seconds["hooks"]
    return found


def render_costs(result: dict[str, Any]) -> str:
    """The costs on one line."""
    found = costs(result)
    return ", ".join(f"{key} {value:.4f}" for key, value in found.items())


def print_table(folder: Path, kept: Path | None) -> None:
    """The table of a measured folder: explained shares come from the sealed run directories."""
    from trainload.analyse.attribution import load_run_layers
    from trainload.record import open_run

    print("| case | step | explained | windows cost, measured (own account) | ", end="")
    print("torch.profiler every step | backward hooks: explained, cost |")
    print("|---|---|---|---|---|---|")
    shares, overheads, results = [], [], []
    for path in sorted(folder.glob("*.json"), key=lambda p: json.loads(p.read_text())["order"]):
        result = json.loads(path.read_text())
        layers = load_run_layers(open_run(folder / result["run"]))
        found = costs(result)
        assert layers is not None, f"{path} has no windows"
        rank = layers.ranks[0]
        result["attribution"] = {
            "explained_fraction": rank.explained_fraction,
            "step_s": rank.step_s,
            "traced_step_s": rank.traced_step_s,
            "parts": dict(rank.parts),
            "windows": rank.cost.windows,
            "windows_cost_fraction": rank.cost.fraction,
        }
        results.append(result)
        shares.append(rank.explained_fraction)
        overheads.append(found["windows"])
        hooks = "fail" if result["hooks_error"] else "-"
        if "hooks" in found:
            hooks = f"{found['hooks_explained']:.0%}, {found['hooks']:+.1%}"
        print(
            f"| {result['case']} | {found['step_s'] * 1e3:.2f} ms | {rank.explained_fraction:.1%} "
            f"| {found['windows']:+.2%} ({rank.cost.fraction or 0:.2%} in {rank.cost.windows}) "
            f"| {found['profiler']:+.0%} | {hooks} |"
        )
    print(
        f"least explained {min(shares):.1%}; cost: median {statistics.median(overheads):+.2%}, "
        f"largest {max(overheads):+.2%}"
    )
    if kept is not None:
        kept.write_text(json.dumps(results) + "\n")


def main() -> None:
    """Parse the command line and do what it asks."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, default=Path("layers-bench"))
    parser.add_argument("--seconds", type=float, default=60.0, help="for each case")
    parser.add_argument("--case", action="append", default=[], help="only this one; repeatable")
    parser.add_argument("--no-table", action="store_true", help="measure alone")
    parser.add_argument("--table", type=Path, help="print the table of that folder alone")
    parser.add_argument("--json", type=Path, help="keep blocks and shares of all cases here")
    options = parser.parse_args()
    if options.table is None:
        measure(options.device, options.out, options.seconds, options.case)
    if not options.no_table:
        print_table(options.table or options.out, options.json)


if __name__ == "__main__":
    main()
