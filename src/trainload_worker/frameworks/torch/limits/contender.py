"""A training in a process of its own that does what it is told, line by line; torch alone.

Started by its path. Each line on standard input is JSON; each answer is one line of JSON.
    {"do": "rate", "seconds": 0.5}            steps a second of the training it was started with
    {"do": "train", "training": {…}}          takes up another training
    {"do": "loss", "steps": 50}               loss after so many steps from the same seed, as hex
    {"do": "peak", "training": {…}, "reference": false}   bytes that a few steps of another one take
"""

from __future__ import annotations

import gc
import json
import sys
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Callable, Dict, List, Mapping, Tuple

if __name__ == "__main__":
    del sys.path[0]  # this folder: nothing here is to stand in for another's module

import torch

Step = Callable[[], Any]
_PEAK_STEPS = 3


@dataclass(frozen=True)
class Training:
    """A perceptron on drawn rows: what is trained, on what, and how."""

    layers: Tuple[int, ...]
    """Units of each layer, the inputs first."""
    batch: int = 64
    samples: int = 4096
    optimizer: str = "adam"
    device: str = "cpu"
    seed: int = 7

    @property
    def weights(self) -> int:
        """Weights and thresholds."""
        return sum((below + 1) * above for below, above in zip(self.layers, self.layers[1:]))


def make_network(layers: Tuple[int, ...]) -> torch.nn.Sequential:
    """Linear layers with ReLU between them."""
    parts: List[torch.nn.Module] = []
    for below, above in zip(layers, layers[1:]):
        parts += [torch.nn.Linear(below, above), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts[:-1])


def make_optimizer(name: str, network: torch.nn.Module) -> torch.optim.Optimizer:
    """Adam, or SGD with or without momentum."""
    if name == "adam":
        return torch.optim.Adam(network.parameters(), lr=1e-4)
    momentum = 0.9 if name == "momentum" else 0.0
    return torch.optim.SGD(network.parameters(), lr=1e-4, momentum=momentum)


def make_step(training: Training) -> Step:
    """One step on the next rows, which gives its loss; rows come in a drawn order."""
    torch.manual_seed(training.seed)
    place = torch.device(training.device)
    rows = torch.randn(training.samples, training.layers[0], device=place)
    labels = torch.randint(training.layers[-1], (training.samples,), device=place)
    order = torch.randperm(training.samples, device=place)
    network = make_network(training.layers).to(place)
    optimizer = make_optimizer(training.optimizer, network)
    loss_of = torch.nn.CrossEntropyLoss()
    at = [0]

    def step() -> Any:
        if at[0] + training.batch > training.samples:
            at[0] = 0
        chosen = order[at[0] : at[0] + training.batch]
        at[0] += training.batch
        optimizer.zero_grad()
        loss = loss_of(network(rows[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
        return loss

    step.network = network  # type: ignore[attr-defined]
    return step


def rate_of(step: Step, seconds: float, finish: Callable[[], None] = lambda: None) -> float:
    """Steps a second over about that time, one at least; `finish` waits for a device."""
    step()
    finish()
    count, begin_s = 0, perf_counter()
    # A busy machine may let the time pass before the first of them.
    while not count or perf_counter() - begin_s < seconds:
        step()
        count += 1
    finish()
    return count / (perf_counter() - begin_s)


def peak_bytes(training: Training, reference: bool) -> int:
    """What data, network and a few steps take at once; with a second copy of the weights if asked.

    On a GPU by its allocator, else the growth of the process's resident memory.
    """
    cuda = training.device == "cuda"
    gc.collect()
    if cuda:
        torch.cuda.init()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    else:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")  # the kernel's peak begins anew (proc(5))
        before = _status("VmRSS")
    step = make_step(training)
    network = step.network  # type: ignore[attr-defined]
    kept = [one.detach().clone() for one in network.parameters()] if reference else []
    for _ in range(_PEAK_STEPS):
        step()
    found = torch.cuda.max_memory_allocated() if cuda else _status("VmHWM")
    del kept
    return int(found - before)


def _status(name: str) -> int:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) << 10
    raise OSError(f"/proc/self/status does not tell {name}")


def read_training(values: Mapping[str, Any]) -> Training:
    """A training as it travels."""
    return Training(**{**values, "layers": tuple(values["layers"])})


def main() -> None:
    """Answers until standard input ends."""
    told = json.loads(sys.argv[1])
    torch.set_num_threads(told["threads"])
    training = read_training(told["training"])
    step = make_step(training)
    _answer({"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["do"] == "rate":
            _answer({"value": rate_of(step, asked["seconds"])})
        elif asked["do"] == "train":
            training = read_training(asked["training"])
            step = make_step(training)
            _answer({"ready": True})
        elif asked["do"] == "loss":
            fresh = make_step(training)
            losses = [fresh() for _ in range(asked["steps"])]
            _answer({"value": float(losses[-1]).hex()})
        else:
            _answer({"value": peak_bytes(read_training(asked["training"]), asked["reference"])})


def _answer(words: Dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
