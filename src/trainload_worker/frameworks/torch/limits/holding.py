"""Memory that trainings take: data, weights, the optimizer's state, a copy kept for reference.

And on a GPU what its memory decides: the largest batch, data that stay there or come each step.
"""

from __future__ import annotations

import gc
from dataclasses import asdict
from functools import partial
from typing import Any, Callable, Dict

import torch

from trainload_worker.frameworks.torch.limits.contender import Training, make_step, rate_of
from trainload_worker.frameworks.torch.limits.contest import Contender
from trainload_worker.frameworks.torch.limits.trainings import devices
from trainload_worker.limits.sampling import Key, Lacking, Place, key, measured, sample_rounds
from trainload_worker.protocol.measure import Measured

_CASES = {
    "weights": ((1024, 2048, 2048, 10), 1024, 32),
    "small batch": ((256, 256, 10), 50_000, 64),
    "whole batch": ((256, 256, 10), 50_000, 50_000),
}
"""Layers, examples and batch: the last two have the same K1."""
GIVEN_BACK = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "0"}
"""Has the C library give memory back at once, so that the next peak begins at the bottom."""
_ROUNDS = 3
_LIMITS = {"half": 2 << 30, "whole": 4 << 30}
_WIDE = (4096, 4096, 4096, 10)


def measure_peaks(place: Place) -> Measured:
    """Bytes that a training takes at its peak, with and without a second copy of its weights."""
    device = devices()[-1]
    with Contender(Training((4, 4)), variables=GIVEN_BACK) as contender:
        conditions: Dict[Key, Callable[[], float]] = {}
        for case, (layers, samples, batch) in _CASES.items():
            for optimizer in ("sgd", "momentum", "adam") if case == "weights" else ("adam",):
                training = Training(layers, batch, samples, optimizer, device)
                for reference in (False, True):
                    if reference and case == "small batch":
                        continue
                    words = key(
                        case=case,
                        optimizer=optimizer,
                        reference="yes" if reference else "no",
                        layers="-".join(map(str, layers)),
                        samples=samples,
                        batch=batch,
                    )
                    conditions[words] = _peak(contender, training, reference)
        readings = sample_rounds(conditions, _ROUNDS, place.check)
    how = "torch's allocator" if device == "cuda" else "growth of the process's resident memory"
    method = f"three steps of perceptrons on {device}, data included; peak by {how}"
    return measured("training-memory", "bytes", readings, method)


def measure_resident(place: Place) -> Measured:
    """Seconds of an example with the data on the GPU against data copied there for each step."""
    _require_cuda()
    conditions: Dict[Key, Callable[[], float]] = {}
    for data in ("resident", "streamed"):
        step = _fed_step(data == "streamed")
        conditions[key(data=data)] = partial(_example_s, step)
    readings = sample_rounds(conditions, place.rounds, place.check)
    method = "perceptron 3072-512-512-10, batch 512, Adam; streamed from pinned memory, no worker"
    return measured("resident-data", "s", readings, method)


def measure_largest(place: Place) -> Measured:
    """The largest batch that fits, to one part in twenty, as the GPU's memory is limited."""
    _require_cuda()
    conditions: Dict[Key, Callable[[], float]] = {
        key(memory=name, bytes=size): partial(_search_batch, size) for name, size in _LIMITS.items()
    }
    readings = sample_rounds(conditions, _ROUNDS, place.check)
    method = "perceptron 4096-4096-4096-10, Adam, torch's allocator held to 2 and to 4 GiB"
    return measured("largest-batch", "count", readings, method)


def _peak(contender: Contender, training: Training, reference: bool) -> Callable[[], float]:
    asked = {"do": "peak", "training": asdict(training), "reference": reference}

    def measure() -> float:
        contender.tell(asked)
        return float(contender.hear())

    return measure


def _fed_step(streamed: bool) -> Callable[[], Any]:
    training = Training((3072, 512, 512, 10), batch=512, samples=512, device="cuda")
    inner = make_step(training)
    if not streamed:
        return inner
    host = torch.randn(512, 3072).pin_memory()
    target = torch.empty(512, 3072, device="cuda")

    def step() -> Any:
        target.copy_(host, non_blocking=True)
        return inner()

    return step


def _example_s(step: Callable[[], Any]) -> float:
    return 1 / (512 * rate_of(step, 0.3, torch.cuda.synchronize))


def _search_batch(limit_bytes: int) -> float:
    total = torch.cuda.get_device_properties(0).total_memory
    low, high = 1, 2
    try:
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit_bytes / total))
        while _fits(high):
            low, high = high, high * 2
        while high - low > max(1, low // 20):
            middle = (low + high) // 2
            low, high = (middle, high) if _fits(middle) else (low, middle)
        return float(low)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()


def _fits(batch: int) -> bool:
    try:
        step = make_step(Training(_WIDE, batch=batch, samples=batch, device="cuda"))
        for _ in range(2):
            step()
    except torch.cuda.OutOfMemoryError:
        return False
    finally:
        gc.collect()
        torch.cuda.empty_cache()
    return True


def _require_cuda() -> None:
    if not torch.cuda.is_available():
        raise Lacking("no GPU that torch can use is here")
