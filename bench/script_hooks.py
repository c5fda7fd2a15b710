"""Microseconds that seeing a script's steps, examples and losses adds to each step.

    python bench/script_hooks.py --rounds 12

A process with the probe and one without, alternating; a model of three small layers, so that the
probe's own time is as large a share as it can be. On the CPU each process counts its own processor
time: others may use the machine too. Prints the median over the rounds of the difference.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", choices=("plain", "probe"))
    options = parser.parse_args()
    if options.child:
        print(step_s(options.device, options.steps, probed=options.child == "probe"))
        return
    found: dict[str, list[float]] = {"plain": [], "probe": []}
    for _ in range(options.rounds):
        for kind in random.sample(("plain", "probe"), 2):
            words = ["--device", options.device, "--steps", str(options.steps), "--child", kind]
            command = [sys.executable, __file__, *words]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found[kind].append(float(done.stdout))
    added = sorted(b - a for a, b in zip(found["plain"], found["probe"], strict=True))
    middle, low, high = (added[int(share * (len(added) - 1))] for share in (0.5, 0.25, 0.75))
    plain_s = sorted(found["plain"])[options.rounds // 2]
    print(
        f"  {options.device}, step {plain_s * 1e6:.0f} µs: the probe adds {middle * 1e6:.1f} µs "
        f"(quartiles {low * 1e6:.1f} … {high * 1e6:.1f}), {options.rounds} rounds"
    )
    if options.json:
        options.json.write_text(json.dumps({"added_s": middle, **found}, indent=1) + "\n")


def step_s(device: str, steps: int, *, probed: bool) -> float:
    """Seconds a step after warm-up."""
    import torch

    from trainload_worker.frameworks.torch.probe import StepProbe
    from trainload_worker.process.events import EventWriter

    torch.set_num_threads(1)
    layers = (torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    features = torch.randn(8, 16, device=device)

    def run(count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            model(features).square().mean().backward()
            optimizer.step()
        if device != "cpu":
            torch.cuda.synchronize()

    clock = time.process_time if device == "cpu" else time.perf_counter
    with tempfile.TemporaryDirectory() as folder:
        if probed:
            StepProbe(EventWriter(str(Path(folder) / "events.jsonl"))).attach()
        run(1000)
        begin_s = clock()
        run(steps)
        return (clock() - begin_s) / steps


if __name__ == "__main__":
    main()
