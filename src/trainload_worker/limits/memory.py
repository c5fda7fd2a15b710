"""Memory as loads meet it: rate by threads, latency by working set, reach of the TLB.

Compiled loops alone are timed; whoever asks brings them.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from functools import partial
from threading import Barrier, Thread
from time import perf_counter, process_time
from typing import Callable, Dict, List, Tuple

from trainload_worker.limits.facts import read_caches
from trainload_worker.limits.native import Kernels
from trainload_worker.limits.sampling import Key, Lacking, Place, key, measured, sample_rounds
from trainload_worker.protocol.measure import Measured

_LINE = 64
_PAGE = 4096
_SAMPLE_S = 0.02
_STEPS = 400_000
_ASSUMED_CACHE = 32 << 20
_PAGES = (16, 64, 256, 512, 1024, 2048, 4096, 8192, 16384)


def measure_bandwidth(place: Place, kernels: Kernels) -> Measured:
    """Bytes a second that threads read, or move by STREAM's triad, from memory together."""
    each = _beyond_caches() // 2
    counts = _thread_counts(len(place.cores))
    conditions: Dict[Key, Callable[[], float]] = {}
    with ExitStack() as stack:
        blocks = [stack.enter_context(kernels.take(3 * each)) for _ in range(max(counts))]
        for threads in counts:
            conditions[key(kernel="read", threads=threads)] = _reader(
                kernels, blocks[:threads], 3 * each, place.cores
            )
            conditions[key(kernel="triad", threads=threads)] = _triad(
                kernels, blocks[:threads], each, place.cores
            )
        readings = sample_rounds(conditions, place.rounds, place.check)
    method = (
        f"compiled loops over {3 * each >> 20} MiB for each thread, bound to a core each; triad "
        "counts 24 bytes an element as STREAM does, the line that a store reads first not counted"
    )
    return measured("memory-bandwidth", "bytes/s", readings, method)


def measure_caches(place: Place, kernels: Kernels) -> Measured:
    """Bytes a second that one thread reads from half of each cache."""
    caches = read_caches()
    if not caches:
        raise Lacking("the system does not tell the sizes of its caches")
    with kernels.take(max(size for _, size in caches)) as block:
        conditions: Dict[Key, Callable[[], float]] = {
            key(level=level, bytes=size): _reader(kernels, [block], size // 2, place.cores[:1])
            for level, size in caches
        }
        readings = sample_rounds(conditions, place.rounds, place.check)
    method = "one thread, a compiled loop over half of the cache's size, again and again"
    return measured("cache-bandwidth", "bytes/s", readings, method)


def measure_latency(place: Place, kernels: Kernels) -> Measured:
    """Seconds of a load whose address the load before it gives, by working set."""
    largest = 2 * _beyond_caches()
    sizes = [16 << 10]
    while sizes[-1] < largest:
        sizes.append(sizes[-1] * 2)
    readings = []
    for size in sizes:
        with kernels.take(size, huge=True) as block:
            kernels.link(block, size // _LINE, _LINE)
            conditions = {key(bytes=size): partial(_load_s, kernels, block)}
            readings += sample_rounds(conditions, place.rounds, place.check)
    method = (
        "a compiled chase of pointers through every cache line of the set in random order, in huge "
        "pages where the system gives them"
    )
    return measured("memory-latency", "s", readings, method, _huge_notes(kernels))


def measure_tlb(place: Place, kernels: Kernels) -> Measured:
    """Seconds of a load that meets another page each time, small pages against huge ones."""
    conditions: Dict[Key, Callable[[], float]] = {}
    with ExitStack() as stack:
        for pages in _PAGES:
            for kind in ("small", "huge"):
                block = stack.enter_context(kernels.take(pages * _PAGE, huge=kind == "huge"))
                kernels.link(block, pages, _PAGE, shift=True)
                conditions[key(pages=pages, page=kind)] = partial(
                    _load_s, kernels, block, _STEPS // 2
                )
        readings = sample_rounds(conditions, place.rounds, place.check)
    method = (
        "a compiled chase of pointers with one cache line in each 4 KiB: the same lines in small "
        "pages and in huge ones, so that the difference is the translation of addresses"
    )
    return measured("tlb-reach", "s", readings, method, _huge_notes(kernels))


def measure_stalls(place: Place, kernels: Kernels) -> Measured:
    """The load that a process shows which waits for memory, and the share of it that is waiting."""
    size, near = 2 * _beyond_caches(), 16 << 10
    with kernels.take(size) as far_block, kernels.take(near) as near_block:
        kernels.link(far_block, size // _LINE, _LINE)
        kernels.link(near_block, near // _LINE, _LINE)

        def load() -> float:
            begin_s, begin_cpu_s = perf_counter(), process_time()
            kernels.chase_s(far_block, _STEPS)
            return (process_time() - begin_cpu_s) / (perf_counter() - begin_s)

        def waiting() -> float:
            return 1 - _load_s(kernels, near_block) / _load_s(kernels, far_block)

        readings = sample_rounds(
            {key(what="load"): load, key(what="waiting"): waiting}, place.rounds, place.check
        )
    method = (
        "CPU time over wall time of a chase of pointers far beyond the caches; the share of its "
        "time that the same number of loads from the nearest cache does not take"
    )
    return measured("stalled-load", "fraction", readings, method)


def _load_s(kernels: Kernels, block: int, steps: int = _STEPS) -> float:
    return kernels.chase_s(block, steps) / steps


def _reader(
    kernels: Kernels, blocks: List[int], count_bytes: int, cores: Tuple[int, ...]
) -> Callable[[], float]:
    once_s = max(kernels.read_s(blocks[0], count_bytes, 1), 1e-9)
    repeats = max(1, int(_SAMPLE_S / once_s))
    return _together(
        [partial(kernels.read_s, block, count_bytes, repeats) for block in blocks],
        count_bytes * repeats,
        cores,
    )


def _triad(
    kernels: Kernels, blocks: List[int], each: int, cores: Tuple[int, ...]
) -> Callable[[], float]:
    def call(block: int) -> float:
        return kernels.triad_s((block, block + each, block + 2 * each), each // 8, 1)

    return _together([partial(call, block) for block in blocks], 3 * each, cores)


def _together(
    calls: List[Callable[[], float]], bytes_each: int, cores: Tuple[int, ...]
) -> Callable[[], float]:
    """Bytes a second of all calls at once, a thread and a core each, by the slowest of them."""

    def measure() -> float:
        if len(calls) == 1:
            return bytes_each / calls[0]()
        barrier, seconds = Barrier(len(calls)), [0.0] * len(calls)

        def work(number: int) -> None:
            if hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(0, {cores[number % len(cores)]})
            barrier.wait()
            seconds[number] = calls[number]()

        threads = [Thread(target=work, args=(number,)) for number in range(len(calls))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return bytes_each * len(calls) / max(seconds)

    return measure


def _thread_counts(cores: int) -> List[int]:
    """1, 2, 4 … and all of them."""
    counts = [1]
    while counts[-1] * 2 < cores:
        counts.append(counts[-1] * 2)
    return [*counts, cores] if cores > counts[-1] else counts


def _beyond_caches() -> int:
    """Bytes that no cache holds, twice over; a thread's share of them is at most 256 MiB."""
    largest = max((size for _, size in read_caches()), default=_ASSUMED_CACHE)
    return min(max(2 * largest, 64 << 20), 256 << 20)


def _huge_notes(kernels: Kernels) -> List[str]:
    """Whether the system gave huge pages where they were asked for."""
    with kernels.take(8 << 20, huge=True):
        try:
            with open("/proc/self/smaps_rollup", encoding="ascii") as file:
                found = re.search(r"AnonHugePages:\s+(\d+) kB", file.read())
        except OSError:
            return ["whether huge pages were given is not told"]
    given = int(found[1]) if found else 0
    return [] if given >= 8 << 10 else ["the system gave no huge pages: all pages are small"]
