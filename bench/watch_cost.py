"""What a step that is not traced pays for being watched: the step clock, the layers' probe, both.

    python bench/watch_cost.py --device cuda

Blocks of equal length in changing order; prints the median over the rounds of each watcher's step
time over that of the plain block in the same round. Windows are held back, so that this is the
cost of all the steps between them.
"""

from __future__ import annotations

import argparse
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

import torch

import layer_cases

ROUNDS = 16


class Bench:
    """One case under each watcher."""

    def __init__(self, device: str, case: str, folder: str) -> None:
        from trainload_worker.frameworks.torch.layers import LayerProbe
        from trainload_worker.frameworks.torch.probe import StepProbe
        from trainload_worker.process.events import EventWriter
        from trainload_worker.protocol.spec import LayersSpec

        self.device = device
        cases = layer_cases.GPU_CASES if device == "cuda" else layer_cases.CPU_CASES
        self.case = cases[case](device)
        self._events = EventWriter(os.path.join(folder, "events.jsonl"))
        self._steps = StepProbe(self._events, rests=False)
        self._layers = LayerProbe(self._events, LayersSpec(1e-9, folder, "window-{index}.json"))
        self._use_up_early_windows()

    def _use_up_early_windows(self) -> None:
        self._layers.attach()
        self.run(60)
        self._layers.detach()

    def run(self, steps: int) -> float:
        """Seconds of a block."""
        self._settle()
        start_s = time.perf_counter()
        for _ in range(steps):
            self.case.step()
        self._settle()
        return time.perf_counter() - start_s

    def _settle(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def watchers(self) -> dict[str, tuple[Callable[[], None], Callable[[], None]]]:
        """How each watcher is switched on and off."""

        def nothing() -> None:
            pass

        def both_on() -> None:
            self._steps.attach()
            self._layers.attach()

        def both_off() -> None:
            self._layers.detach()
            self._steps.finish()

        return {
            "plain": (nothing, nothing),
            "plain again": (nothing, nothing),
            "steps": (self._steps.attach, self._steps.finish),
            "layers": (self._layers.attach, self._layers.detach),
            "both": (both_on, both_off),
        }


def measure(bench: Bench, seconds: float) -> dict[str, list[float]]:
    """Step time over that of the plain block of the same round, by watcher and round."""
    steps = max(5, int(seconds / (bench.run(50) / 50)))
    ratios: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        order = list(bench.watchers().items())
        random.shuffle(order)
        times: dict[str, float] = {}
        for name, (switch_on, switch_off) in order:
            switch_on()
            times[name] = bench.run(steps) / steps
            switch_off()
        for name, step_s in times.items():
            ratios.setdefault(name, []).append(step_s / times["plain"])
        ratios.setdefault("plain_s", []).append(times["plain"])
    return ratios


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--case", default="mlp-512x3-b512")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one block")
    options = parser.parse_args()
    random.seed(0)
    with tempfile.TemporaryDirectory() as folder:
        ratios: dict[str, Any] = measure(
            Bench(options.device, options.case, folder), options.seconds
        )
    plain_s = statistics.median(ratios.pop("plain_s"))
    print(f"{options.case} on {options.device}: plain step {plain_s * 1e3:.3f} ms")
    for name, values in ratios.items():
        low, middle, high = statistics.quantiles(values, n=4)
        print(f"{name:12} {middle:.4f} (middle half {low:.4f} … {high:.4f})")


if __name__ == "__main__":
    main()
