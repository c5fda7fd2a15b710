"""What a network can hold: trained to remember drawn labels, and drawn values, by redundancy K1."""

from __future__ import annotations

from typing import Any, List, Tuple

import torch

from trainload_worker.frameworks.torch.limits.contender import make_network
from trainload_worker.limits.sampling import Place, measured
from trainload_worker.protocol.measure import Measured, Reading

_SIZES = {"labels": (128, 64, 10), "values": (128, 32, 32)}
"""Examples, their features, and what is remembered of each: one of ten classes, or 32 numbers."""
_K1 = (0.1, 1.0, 10.0)
_STEPS = {True: 1500, False: 6000}
"""By whether the form is the quick one."""
_WITHIN = 0.05
"""A drawn value counts as remembered within this share of the values' deviation."""
_LOOK = 100


def measure_memory(place: Place) -> Measured:
    """The share of drawn labels, or of drawn values, that a trained network gives back."""
    # Threads that share such small networks mostly wait for each other.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        readings = _remember_all(place)
    finally:
        torch.set_num_threads(before)
    method = (
        "128 examples of normal features. labels: one of 10 classes, drawn without regard to the "
        "64 features; values: as many numbers as the 32 features, drawn alike, each to be given "
        f"back within {_WITHIN:g} of its deviation. One hidden layer with tanh that makes K1 as "
        f"stated, Adam over the whole sample, at most {_STEPS[place.quick]} steps; a value a seed"
    )
    return measured("memorise", "fraction", readings, method)


def _remember_all(place: Place) -> List[Reading]:
    readings = []
    seeds = 3 if place.quick else 5
    for task in _SIZES:
        for k1 in _K1:
            layers = size_network(k1, task)
            values = tuple(_remember(place, task, layers, seed) for seed in range(seeds))
            at = {"task": task, "k1": f"{k1:g}", "layers": "-".join(map(str, layers))}
            readings.append(Reading(at, values))
    return readings


def size_network(k1: float, task: str) -> Tuple[int, int, int]:
    """Units of each layer so that weights and thresholds over the sample's numbers come to K1."""
    samples, inputs, outputs = _SIZES[task]
    hidden = max(1, round((k1 * samples * inputs - outputs) / (inputs + 1 + outputs)))
    return (inputs, hidden, outputs)


def _remember(place: Place, task: str, layers: Tuple[int, int, int], seed: int) -> float:
    """The largest share that was remembered at any look."""
    torch.manual_seed(seed)
    samples, inputs, outputs = _SIZES[task]
    rows = torch.randn(samples, inputs)
    linear = make_network(layers)
    network = torch.nn.Sequential(linear[0], torch.nn.Tanh(), linear[2])
    steps = _STEPS[place.quick]
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    labels: Any = torch.randint(outputs, (samples,))
    targets = torch.randn(samples, outputs)
    best = 0.0
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        said = network(rows)
        if task == "labels":
            loss = torch.nn.functional.cross_entropy(said, labels)
        else:
            loss = torch.nn.functional.mse_loss(said, targets)
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % _LOOK == 0:
            place.check()
            with torch.no_grad():
                said = network(rows)
            right = said.argmax(1) == labels if task == "labels" else _near(said, targets)
            best = max(best, float(right.float().mean()))
            if best == 1.0:
                break
    return best


def _near(said: Any, targets: Any) -> Any:
    return (said - targets).abs() < _WITHIN
