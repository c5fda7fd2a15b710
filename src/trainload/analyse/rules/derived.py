"""Figures that follow from measured ones: costs as differences, times over study R's expressions.

Sample by sample where two figures were taken in the same rounds. A figure whose parts are missing
is missing itself; no file and no device here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from trainload.errors import HardwareFileError
from trainload.estimate import Sample, algorithm_variables, estimate_memory_cells
from trainload.hardware.limits import MachineLimits
from trainload.workload import Optimizer
from trainload_worker.protocol.measure import Measured, Reading

FLOAT_BYTES = 4
_OPTIMIZERS = {
    "sgd": Optimizer(name="sgd", momentum=0.0),
    "momentum": Optimizer(name="sgd", momentum=0.9),
    "adam": Optimizer(name="adam"),
}
_RANDOM_BLOCK = "4096"


def derive(limits: MachineLimits) -> tuple[Measured, ...]:
    """Everything that follows from what was measured, as programs of their own names.

    HardwareFileError where a file from elsewhere has levels that mean nothing.
    """
    try:
        found = tuple(_measured(name, unit, make(limits), how) for name, unit, make, how in _MAKERS)
    except (KeyError, ValueError, ZeroDivisionError, OverflowError) as error:
        raise HardwareFileError(
            f"figures of {limits.taken_at} have levels that no program here writes: {error!s:.80}"
        ) from None
    return tuple(one for one in found if one.readings)


def sequential(layers: Sequence[int]) -> int:
    """T1 of a perceptron (expression 2), as `estimate_complexity` counts its layer graph.

    2·inputs for each neuron, and one for the activation that the last layer has not.
    """
    return sum(2 * below * above for below, above in pairwise(layers)) + sum(layers[1:-1])


def parallel(layers: Sequence[int]) -> int:
    """T2 of a perceptron (expression 3): those of one neuron for each layer."""
    return 2 * sum(layers[:-1]) + len(layers[1:-1])


def memory_cells(layers: Sequence[int], samples: int, optimizer: str) -> float:
    """N_na of a perceptron (expression 1), one cell a number, a label for each example."""
    weights = sum((below + 1) * above for below, above in pairwise(layers))
    return estimate_memory_cells(
        Sample(samples=samples, inputs=layers[0], outputs=1),
        weights=weights,
        variables=algorithm_variables(weights, _OPTIMIZERS[optimizer]),
    ).cells


def _translation(limits: MachineLimits) -> Iterator[Reading]:
    for pages, small in _by(limits, "tlb-reach", "pages", {"page": "small"}):
        huge = _values(limits, "tlb-reach", {"pages": pages, "page": "huge"})
        if huge:
            yield _paired({"pages": pages}, small, huge, lambda one, other: one - other)


def _missing_caches(limits: MachineLimits) -> Iterator[Reading]:
    sets = list(_by(limits, "memory-latency", "bytes", {}))
    cache_bytes = limits.facts.get("l2_bytes", "")
    if not sets or not cache_bytes.isdecimal():
        return
    near = [values for size, values in sets if int(size) <= int(cache_bytes) // 2]
    if near:
        yield _paired({}, sets[-1][1], near[-1], lambda one, other: one - other)


def _over_complexity(
    limits: MachineLimits, count: Callable[[Sequence[int]], int]
) -> Iterator[Reading]:
    for one in _readings(limits, "forward-time"):
        operations = count(_layers(one.at))
        at = {name: one.at[name] for name in ("network", "on")}
        yield Reading(at, tuple(value / operations for value in one.values))


def _over_cells(limits: MachineLimits) -> Iterator[Reading]:
    for one in _readings(limits, "training-memory"):
        if one.at["reference"] == "no":
            at = {name: one.at[name] for name in ("case", "optimizer")}
            cells = memory_cells(_layers(one.at), int(one.at["samples"]), one.at["optimizer"])
            yield Reading(at, tuple(value / (FLOAT_BYTES * cells) for value in one.values))


def _reserve(limits: MachineLimits) -> Iterator[Reading]:
    for one in _readings(limits, "training-memory"):
        at = {name: one.at[name] for name in ("case", "optimizer")}
        plain = _values(limits, "training-memory", {**at, "reference": "no"})
        if one.at["reference"] == "yes" and plain:
            yield _paired(at, one.values, plain, lambda more, less: (more - less) / less)


def _random_reads(limits: MachineLimits) -> Iterator[Reading]:
    for one in _readings(limits, "drive-read"):
        if one.at.get("pattern") == "random" and one.at.get("block") == _RANDOM_BLOCK:
            reads = tuple(value / int(_RANDOM_BLOCK) for value in one.values)
            yield Reading({"place": one.at["place"]}, reads)


def _rate_of_a_core(limits: MachineLimits) -> Iterator[Reading]:
    for threads, values in _by(limits, "memory-bandwidth", "threads", {"kernel": "read"}):
        yield Reading({"threads": threads}, tuple(value / int(threads) for value in values))


def _readings(limits: MachineLimits, program: str) -> tuple[Reading, ...]:
    found = limits.find(program)
    return () if found is None else found.readings


def _values(limits: MachineLimits, program: str, at: Mapping[str, str]) -> tuple[float, ...]:
    """Those of the first reading with these levels; none where there is no such reading."""
    for one in _readings(limits, program):
        if at.items() <= one.at.items():
            return one.values
    return ()


def _by(
    limits: MachineLimits, program: str, name: str, at: Mapping[str, str]
) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Levels of one name with their values, in the order of the numbers they are."""
    found = [
        (one.at[name], one.values)
        for one in _readings(limits, program)
        if at.items() <= one.at.items()
    ]
    yield from sorted(found, key=lambda pair: float(pair[0]))


def _paired(
    at: Mapping[str, str],
    one: Sequence[float],
    other: Sequence[float],
    join: Callable[[float, float], float],
) -> Reading:
    return Reading(at, tuple(map(join, one, other)))


def _layers(at: Mapping[str, str]) -> list[int]:
    return [int(part) for part in at["layers"].split("-")]


def _measured(program: str, unit: str, readings: Iterator[Reading], method: str) -> Measured:
    return Measured(program, unit, tuple(readings), f"derived: {method}")


_MAKERS: tuple[tuple[str, str, Callable[[MachineLimits], Iterator[Reading]], str], ...] = (
    ("translation-cost", "s", _translation, "tlb-reach, small less huge pages"),
    ("cache-miss-cost", "s", _missing_caches, "memory-latency, memory less L2"),
    ("time-over-t1", "s", lambda one: _over_complexity(one, sequential), "forward-time over T1"),
    ("time-over-t2", "s", lambda one: _over_complexity(one, parallel), "forward-time over T2"),
    ("over-formula", "ratio", _over_cells, "training-memory over N_na"),
    ("reserve-share", "fraction", _reserve, "training-memory, the copy's part"),
    ("random-reads", "1/s", _random_reads, "drive-read of 4 KiB at random"),
    ("rate-of-a-core", "bytes/s", _rate_of_a_core, "memory-bandwidth over threads"),
)
"""Name, unit, how it is made, and from what."""
