"""What each place costs in which watching a script is felt, in one process on a GPU or a CPU.

    PYTHONPATH=src python3 bench/hook_factors.py --case mlp --turns 1600 --turn 0.04 --json FILE

The four places that a watched step passes through are switched on and off at random for each of
many short turns, and a regression over the turns says what each adds to a step: the model's call,
the backward pass, the optimizer's hook of the step's probe (with its flushes), and that of the
layers' probe, after one window was traced. Every step is seen here, as none is let pass for being
short; what a window leaves behind for good is not: that is for layers_turns.py to tell. Needs
numpy.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch.optim import optimizer as optimizers

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "bench" / "scripts")]
PLACES = ("call", "backward", "hook", "layers")
NEAR = 15
"""Turns on each side that tell the machine's speed at a turn."""


class Watched:
    """A training with both probes attached, and switches for what they have put in place."""

    def __init__(self, case: str) -> None:
        from outside_case import make

        from trainload_worker.frameworks.torch.layers import LayerProbe
        from trainload_worker.frameworks.torch.optimizer_steps import optimizer_steps
        from trainload_worker.frameworks.torch.probe import StepProbe
        from trainload_worker.process.events import EventWriter
        from trainload_worker.protocol.spec import LayersSpec

        self._model, self._loss, self._rule = make(case)
        kind = type(self._model)
        self._call, self._backward = [kind.__dict__.get("__call__")], [torch.autograd.backward]
        self.train(30)
        folder = tempfile.mkdtemp()
        events = EventWriter(str(Path(folder) / "events.jsonl"))
        steps = StepProbe(events, rests=False)
        steps.attach()
        # The first window comes whatever it costs, a second never.
        LayerProbe(events, LayersSpec(1e-9, folder, "window-{index}.json")).attach()
        self.train(60)
        # Steps without a call would have it look for models again.
        steps._watcher._calls.looks = 1 << 10
        self._call.append(kind.__dict__.get("__call__"))
        self._backward.append(torch.autograd.backward)
        self._hooks = dict(optimizers._global_optimizer_post_hooks)
        self._steps, self._followers = optimizer_steps, optimizer_steps._followers

    def switch(self, call: bool, backward: bool, hook: bool, layers: bool) -> None:
        """Each place as asked for."""
        kind = type(self._model)
        if self._call[call] is None:
            if "__call__" in kind.__dict__:
                del kind.__call__
        else:
            kind.__call__ = self._call[call]
        torch.autograd.backward = self._backward[backward]
        asked = zip(self._followers, (hook, layers), strict=True)
        self._steps._followers = tuple(follower for follower, on in asked if on)
        hooks = optimizers._global_optimizer_post_hooks
        hooks.clear()
        hooks.update(self._hooks if hook or layers else {})

    def train(self, count: int) -> float:
        """Seconds that so many steps take."""
        began = time.perf_counter()
        for _ in range(count):
            self._rule.zero_grad(set_to_none=True)
            self._loss().backward()
            self._rule.step()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter() - began


def fit(rows: list[tuple[list[bool], float]]) -> dict[str, list[float]]:
    """Microseconds that each place adds, with its standard error; and the step without them."""
    times = np.array([seconds for _, seconds in rows])
    usual = [np.median(times[max(0, at - NEAR) : at + NEAR + 1]) for at in range(len(times))]
    shares = times / np.array(usual)
    known = np.abs(shares - 1) < 0.25
    asked = np.array([[True, *switched] for switched, _ in rows], float)[known]
    found = np.linalg.lstsq(asked, shares[known], rcond=None)[0]
    left = shares[known] - asked @ found
    errors = np.sqrt(np.diag(np.linalg.inv(asked.T @ asked)) * left.var())
    step_us = float(np.median(times)) * 1e6
    return {
        name: [round(float(value) * step_us, 1), round(float(error) * step_us, 1)]
        for name, value, error in zip(("step", *PLACES), found, errors, strict=True)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--case", default="mlp", help="of bench/scripts/outside_case.py")
    parser.add_argument("--turns", type=int, default=1600)
    parser.add_argument("--turn", type=float, default=0.04, help="seconds")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    watched = Watched(options.case)
    count = max(1, round(options.turn / (watched.train(20) / 20)))
    rows = []
    for _ in range(options.turns):
        switched = [random.random() < 0.5 for _ in PLACES]
        watched.switch(*switched)
        rows.append((switched, watched.train(count) / count))
    found = fit(rows)
    print(f"{options.case}, {options.turns} turns of {count} steps, microseconds of a step:")
    for name, (value, error) in found.items():
        print(f"  {name:9s} {value:8.1f} ± {error:.1f}")
    if options.json:
        options.json.write_text(json.dumps({"case": options.case, "added_us": found}) + "\n")


if __name__ == "__main__":
    main()
