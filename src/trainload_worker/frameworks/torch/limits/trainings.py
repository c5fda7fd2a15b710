"""Trainings under conditions: threads, others beside them, page size, batch, place of the data."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from time import perf_counter
from typing import Any, Callable, Dict

import torch

from trainload_worker.frameworks.torch.limits.contender import (
    Step,
    Training,
    make_network,
    make_step,
    rate_of,
)
from trainload_worker.frameworks.torch.limits.contest import Contender, ask_all, one_on_each
from trainload_worker.limits.facts import read_caches
from trainload_worker.limits.sampling import Key, Lacking, Place, key, measured, sample_rounds
from trainload_worker.protocol.measure import Measured

PERCEPTRON = (75, 512, 512, 512, 10)
"""That of the load analysis."""
_SMALL = (32, 32, 10)
_LARGE = (1024, 2048, 2048, 10)
_BATCHES = (16, 64, 256, 1024)
_CELLS_OF_ADAM = 4
"""Weights, gradients and two moments."""
_FLOAT_BYTES = 4
_ASSUMED_CACHE = 32 << 20
_LOSS_STEPS = 40
_IMAGE = (3, 64, 64)


def measure_threads(place: Place) -> Measured:
    """Examples a second of a small and a large network, one thread against all."""
    counts = sorted({1, len(place.cores)})
    conditions: Dict[Key, Callable[[], float]] = {}
    for name, layers in (("small", _SMALL), ("large", _LARGE)):
        step = make_step(Training(layers))
        for threads in counts:
            conditions[key(network=name, threads=threads)] = _with_threads(threads, step, place)
    readings = sample_rounds(conditions, place.rounds, place.check)
    method = f"perceptrons {_words(_SMALL)} and {_words(_LARGE)}, batch 64, Adam, in one process"
    return measured("training-threads", "1/s", readings, method)


def measure_at_once(place: Place) -> Measured:
    """Steps a second of each of several trainings at once against one, a core and thread each."""
    together = _together_count(place)
    share_bytes = max((size for _, size in read_caches()), default=_ASSUMED_CACHE)
    asked = {"do": "rate", "seconds": _sample_s(place)}
    readings = []
    with one_on_each(Training(_SMALL), place.cores[:together]) as found:
        for name, share in (("small", 0.02), ("middle", 0.6), ("large", 4.0)):
            weights = min(share * share_bytes, 256 << 20) / _CELLS_OF_ADAM / _FLOAT_BYTES
            side = max(16, int((weights / 2) ** 0.5))
            training = Training((side, side, side, 10), batch=16, samples=256)
            ask_all(found, {"do": "train", "training": asdict(training)})
            conditions: Dict[Key, Callable[[], float]] = {
                key(network=name, at_once=1): partial(_mean_rate, found[:1], asked),
                key(network=name, at_once="several"): partial(_mean_rate, found, asked),
            }
            readings += sample_rounds(conditions, place.rounds, place.check)
    method = (
        f"{together} processes of one thread, each on a core of its own; weights and Adam's state "
        "take 0.02, 0.6 and 4 times the last cache, 256 MiB at most; batch 16"
    )
    return measured("trainings-at-once", "1/s", readings, method)


def measure_same(place: Place) -> Measured:
    """The share of seeded trainings at once that end with the very loss of one alone."""
    together = _together_count(place)
    asked = {"do": "loss", "steps": _LOSS_STEPS}
    with one_on_each(Training(PERCEPTRON), place.cores[:together]) as found:
        alone = ask_all(found[:1], asked)[0]

        def share() -> float:
            return sum(bool(one == alone) for one in ask_all(found, asked)) / together

        readings = sample_rounds({key(at_once="several"): share}, place.rounds, place.check)
    method = (
        f"{together} processes train the same perceptron on the same rows from the same seed for "
        f"{_LOSS_STEPS} steps; a loss counts as the same where every bit is"
    )
    return measured("same-results", "fraction", readings, method)


def measure_huge_pages(place: Place) -> Measured:
    """Steps a second with torch's memory in huge pages against small ones."""
    threads = len(place.cores)
    asked = {"do": "rate", "seconds": _sample_s(place)}
    training = Training(_LARGE, samples=65536)
    with ExitStack() as stack:
        conditions: Dict[Key, Callable[[], float]] = {}
        for kind, word in (("small", "0"), ("huge", "1")):
            variables = {"THP_MEM_ALLOC_ENABLE": word}
            one = stack.enter_context(Contender(training, threads=threads, variables=variables))
            conditions[key(pages=kind)] = partial(_mean_rate, [one], asked)
        readings = sample_rounds(conditions, place.rounds, place.check)
    method = (
        f"perceptron {_words(_LARGE)} on 256 MiB of rows, batch 64, Adam; torch told by "
        "THP_MEM_ALLOC_ENABLE to ask for huge pages or not"
    )
    return measured("huge-page-training", "1/s", readings, method)


def measure_batches(place: Place) -> Measured:
    """Seconds of an example by batch size, on the CPU and on a GPU where there is one."""
    conditions: Dict[Key, Callable[[], float]] = {}
    for device in devices():
        for batch in _BATCHES:
            step = make_step(Training(PERCEPTRON, batch=batch, device=device))
            conditions[key(device=device, batch=batch)] = _example_s(step, batch, device, place)
    readings = sample_rounds(conditions, place.rounds, place.check)
    method = f"perceptron {_words(PERCEPTRON)}, Adam, data on the device, all threads"
    return measured("batch-time", "s", readings, method)


def measure_working_set(place: Place) -> Measured:
    """Seconds of an example whose data lie in a core's own cache against ones far beyond caches."""
    caches = dict(read_caches())
    if "L2" not in caches:
        raise Lacking("the system does not tell the sizes of its caches")
    layers, batch = (256, 256, 10), 64
    sizes = {"cache": caches["L2"] // 4, "memory": min(8 * max(caches.values()), 512 << 20)}
    conditions: Dict[Key, Callable[[], float]] = {}
    for name, size in sizes.items():
        samples = max(batch, size // (layers[0] * _FLOAT_BYTES))
        step = make_step(Training(layers, batch=batch, samples=samples))
        conditions[key(data=name)] = _example_s(step, batch, "cpu", place)
    readings = sample_rounds(conditions, place.rounds, place.check)
    method = (
        f"perceptron {_words(layers)}, batch 64, rows in drawn order out of "
        f"{sizes['cache'] >> 10} KiB or {sizes['memory'] >> 20} MiB"
    )
    return measured("data-working-set", "s", readings, method)


def measure_need(place: Place) -> Measured:
    """Bytes of examples that a training takes in a second, as files of bytes would hold them."""
    conditions: Dict[Key, Callable[[], float]] = {}
    for device in devices():
        perceptron = make_step(Training(PERCEPTRON, batch=512, device=device))
        row_bytes = PERCEPTRON[0] * _FLOAT_BYTES
        conditions[key(network="perceptron", device=device)] = _need(
            perceptron, 512, row_bytes, device, place
        )
        conditions[key(network="convolutions", device=device)] = _need(
            _convolutions(64, device), 64, _IMAGE[0] * _IMAGE[1] * _IMAGE[2], device, place
        )
    readings = sample_rounds(conditions, place.rounds, place.check)
    method = (
        "examples a second that lie in memory already, times the bytes of one: 75 floats, or an "
        "image of 3×64×64 bytes through three convolutions"
    )
    return measured("loader-need", "bytes/s", readings, method)


def devices() -> list[str]:
    """Where torch can train here."""
    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def finish_of(device: str) -> Callable[[], None]:
    """Waits until the device has done what it was told; a CPU has by then."""
    return torch.cuda.synchronize if device == "cuda" else lambda: None


def _convolutions(batch: int, device: str) -> Step:
    images = torch.randn(batch, *_IMAGE, device=device)
    labels = torch.randint(10, (batch,), device=device)
    blocks = []
    for below, above in ((_IMAGE[0], 32), (32, 64), (64, 128)):
        blocks += [torch.nn.Conv2d(below, above, 3, stride=2, padding=1), torch.nn.ReLU()]
    head = make_network((128 * 8 * 8, 10))
    network = torch.nn.Sequential(*blocks, torch.nn.Flatten(), *head).to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9)

    def step() -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step


def _sample_s(place: Place) -> float:
    return 0.15 if place.quick else 0.4


def _together_count(place: Place) -> int:
    if len(place.cores) < 2:
        raise Lacking("several trainings at once need two cores; this process may use one")
    return min(len(place.cores), 8)


def _mean_rate(contenders: list[Contender], asked: Dict[str, Any]) -> float:
    rates = ask_all(contenders, asked)
    return float(sum(rates)) / len(rates)


def _with_threads(threads: int, step: Step, place: Place) -> Callable[[], float]:
    def measure() -> float:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            return 64 * rate_of(step, _sample_s(place))
        finally:
            torch.set_num_threads(before)

    return measure


def _example_s(step: Step, batch: int, device: str, place: Place) -> Callable[[], float]:
    finish = finish_of(device)
    return lambda: 1 / (batch * rate_of(step, _sample_s(place), finish))


def _need(
    step: Step, batch: int, example_bytes: int, device: str, place: Place
) -> Callable[[], float]:
    finish = finish_of(device)
    return lambda: example_bytes * batch * rate_of(step, _sample_s(place), finish)


def _words(layers: tuple[int, ...]) -> str:
    return "-".join(map(str, layers))


def timed_s(call: Callable[[], Any], finish: Callable[[], None], repeats: int) -> float:
    """Seconds of one call over so many of them."""
    begin_s = perf_counter()
    for _ in range(repeats):
        call()
    finish()
    return (perf_counter() - begin_s) / repeats
