"""Microseconds that seeing a script's steps, examples and losses adds to each step.

    python bench/script_hooks.py --rounds 12

A process with the probe and one without, alternating; a model of three small layers, so that the
probe's own time is as large a share as it can be. With --modules N the model has N modules, blocks
in a model of the script's own, and with --layers layers are watched too: one window is traced
before the clock starts, none after. With --rests short steps are let pass as on a GPU, without it
all are seen. On the CPU each process counts its own processor time: others
may use the machine too. Prints the median over the rounds of the difference.
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
    parser.add_argument("--modules", type=int, default=4, help="in the model, itself included")
    parser.add_argument(
        "--layers", action="store_true", help="watch layers too, outside of windows"
    )
    parser.add_argument("--rests", action="store_true", help="let short steps pass unseen")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", choices=("plain", "probe"))
    options = parser.parse_args()
    if options.child:
        print(step_s(options, probed=options.child == "probe"))
        return
    found: dict[str, list[float]] = {"plain": [], "probe": []}
    for _ in range(options.rounds):
        for kind in random.sample(("plain", "probe"), 2):
            words = ["--device", options.device, "--steps", str(options.steps), "--child", kind]
            words += ["--modules", str(options.modules), *["--layers"] * options.layers]
            words += ["--rests"] * options.rests
            command = [sys.executable, __file__, *words]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found[kind].append(float(done.stdout))
    added = sorted(b - a for a, b in zip(found["plain"], found["probe"], strict=True))
    middle, low, high = (added[int(share * (len(added) - 1))] for share in (0.5, 0.25, 0.75))
    plain_s = sorted(found["plain"])[options.rounds // 2]
    print(
        f"  {options.device}, {options.modules} modules, step {plain_s * 1e6:.0f} µs: the probe"
        f"{' and that of layers' * options.layers} adds {middle * 1e6:.1f} µs "
        f"(quartiles {low * 1e6:.1f} … {high * 1e6:.1f}), {options.rounds} rounds"
    )
    if options.json:
        options.json.write_text(json.dumps({"added_s": middle, **found}, indent=1) + "\n")


def make_model(modules: int):
    """Three layers in a Sequential, or blocks of three modules each in one that is called alone."""
    import torch

    layers = (torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    if modules == 4:
        return torch.nn.Sequential(*layers)

    class Deep(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = torch.nn.ModuleList(
                torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU())
                for _ in range((modules - 2) // 3)
            )

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return x

    return Deep()


def step_s(options: argparse.Namespace, *, probed: bool) -> float:
    """Seconds a step after warm-up."""
    import torch

    from trainload_worker.frameworks.torch.layers import LayerProbe
    from trainload_worker.frameworks.torch.probe import StepProbe
    from trainload_worker.process.events import EventWriter
    from trainload_worker.protocol.spec import LayersSpec

    device, steps = options.device, options.steps
    torch.set_num_threads(1)
    model = make_model(options.modules).to(device)
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
            events = EventWriter(str(Path(folder) / "events.jsonl"))
            StepProbe(events, rests=options.rests).attach()
            if options.layers:
                # The first window comes whatever it costs, a second never.
                LayerProbe(events, LayersSpec(1e-9, folder, "window-{index}.json")).attach()
        run(1000)
        begin_s = clock()
        run(steps)
        return (clock() - begin_s) / steps


if __name__ == "__main__":
    main()
