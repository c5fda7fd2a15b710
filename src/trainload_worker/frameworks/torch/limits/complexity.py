"""Time of a forward pass of one example beside the sizes that expressions of complexity count."""

from __future__ import annotations

from typing import Callable, Dict, Tuple

import torch

from trainload_worker.frameworks.torch.limits.contender import make_network
from trainload_worker.frameworks.torch.limits.trainings import devices, finish_of, timed_s
from trainload_worker.limits.sampling import Key, Place, key, measured, sample_rounds
from trainload_worker.protocol.measure import Measured

_NETWORKS: Dict[str, Tuple[int, ...]] = {
    "narrow": (256,) * 4,
    "wide": (1024,) * 4,
    "wider": (2048,) * 4,
    "deep": (512,) * 13,
}
"""`wide` and `deep` have the same number of weights; the others lie to both sides of them."""
_SAMPLE_S = 0.03


def measure_forward(place: Place) -> Measured:
    """Seconds of a forward pass of one example, on one thread and on what is most parallel here."""
    conditions: Dict[Key, Callable[[], float]] = {}
    parallel = devices()[-1]
    for name, layers in _NETWORKS.items():
        words = "-".join(map(str, layers))
        conditions[key(network=name, layers=words, on="one thread")] = _forward(layers, "cpu", 1)
        conditions[key(network=name, layers=words, on="parallel")] = _forward(
            layers, parallel, len(place.cores)
        )
    readings = sample_rounds(conditions, place.rounds, place.check)
    what = "the GPU" if parallel == "cuda" else f"{len(place.cores)} threads"
    method = f"perceptrons with ReLU, one example, no gradients; parallel is {what}"
    return measured("forward-time", "s", readings, method)


def _forward(layers: Tuple[int, ...], device: str, threads: int) -> Callable[[], float]:
    network = make_network(layers).to(device)
    row = torch.randn(1, layers[0], device=device)
    finish = finish_of(device)

    def measure() -> float:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            with torch.no_grad():
                once_s = timed_s(lambda: network(row), finish, 3)
                return timed_s(lambda: network(row), finish, max(3, int(_SAMPLE_S / once_s)))
        finally:
            torch.set_num_threads(before)

    return measure
