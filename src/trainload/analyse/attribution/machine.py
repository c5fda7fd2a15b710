"""What the machine did to a run: other load, throttling, quota, swapping, memory that is short.

Reads a run's samples and summary; says nothing about its layers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainload.analyse.summary import RunSummary, summarise_run
from trainload.hardware.throttling import SLOWED_BITS, THROTTLE_REASONS
from trainload.record import Run
from trainload_worker.protocol.events import RECOMPILE

if TYPE_CHECKING:
    import polars as pl

SHORT_FRACTION = 0.8
LEAST_FAULT_S = 5e-7
"""What a page takes at least until it is given: cleared, and mapped."""
FAULTS_FRACTION = 0.15
"""Share of the system's time that page faults must take, at the least, to be what it is about."""
OWN_FRACTION = 0.5
"""Share of the used memory that the run must hold before the machine's is its own matter."""


@dataclass(frozen=True, kw_only=True)
class FewThreads:
    """Threads of a framework on more cores than it used."""

    threads: int
    cores: int
    """Cores, not their hardware threads, that were free for it."""


@dataclass(frozen=True, kw_only=True)
class Recompiling:
    """How a compiler began anew, over a training."""

    count: int
    time_s: float
    """In all; what was compiled at the same time counts once."""
    training_s: float
    steps: int
    words: str | None
    """Of what and why, as the last one told."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A run's circumstances over its training; None where nobody measured them."""

    host_load_fraction: float | None = None
    """Mean over all cores, the run included."""
    run_load_fraction: float | None = None
    quota_fraction: float | None = None
    """Share of the training for which the control group's CPU quota held it back."""
    throttled_fraction: float | None = None
    """Share of the samples in which the device ran slower than asked."""
    throttled: str | None = None
    """Which device, and why."""
    swapped_bytes: float | None = None
    """What was swapped out during the training."""
    swap_fraction: float | None = None
    """The same as a share of what was in use at its peak."""
    kernel_fraction: float | None = None
    """Share of the run's processor time that the system took to give it pages; None where that was
    not what it was busy with."""
    page_faults_per_s: float | None = None
    few_threads: FewThreads | None = None
    """None where threads are as many as cores that they could use, or somebody asked for them."""
    recompiling: Recompiling | None = None
    """None where nothing was compiled again during the training."""
    memory_fraction: float | None = None
    """Peak share of the memory that is short; None where none is."""
    memory: str | None = None
    """Which memory that is."""


def find_machine(run: Run) -> Machine:
    """The circumstances of a run."""
    summary = summarise_run(run)
    throttled_fraction, throttled = _throttling(run.samples)
    swapped_bytes, swap_fraction = _swapping(summary)
    memory_fraction, memory = _short_memory(summary)
    kernel_fraction, page_faults_per_s = _paging(summary)
    held = summary.counters.get("cgroup_cpu_throttled_s")
    covered_s = summary.covered_s or 0.0
    return Machine(
        host_load_fraction=_mean(summary, "host_cpu_load_fraction"),
        run_load_fraction=_mean(summary, "run_cpu_load_fraction"),
        quota_fraction=(
            min(held.amount / covered_s, 1.0)
            if held is not None and held.amount is not None and covered_s > 0
            else None
        ),
        throttled_fraction=throttled_fraction,
        throttled=throttled,
        swapped_bytes=swapped_bytes,
        swap_fraction=swap_fraction,
        kernel_fraction=kernel_fraction,
        page_faults_per_s=page_faults_per_s,
        few_threads=_few_threads(run, _mean(summary, "host_cpu_load_fraction")),
        recompiling=_recompiling(run, summary),
        memory_fraction=memory_fraction,
        memory=memory,
    )


def _few_threads(run: Run, host_load: float | None) -> FewThreads | None:
    """Fewer threads than cores of the setting that nobody else kept busy, as OMP_NUM_THREADS and
    launchers that set it have them."""
    manifest = run.manifest
    obtained, machine = manifest.setting.obtained, manifest.machine
    asked = manifest.setting.asked.threads is not None or (manifest.processes or 1) > 1
    if asked or obtained is None or machine is None or host_load is None:
        return None
    threads, logical = obtained.threads, machine.logical_cores
    if not threads or not obtained.cores or not logical:
        return None
    each = (machine.physical_cores or logical) / logical
    cores = min(len(obtained.cores) * each, machine.cpu_quota_cores or math.inf)
    free = threads + (1 - host_load) * logical * each
    usable = int(min(cores, free) + 0.5)
    return FewThreads(threads=threads, cores=usable) if threads < usable else None


def _recompiling(run: Run, summary: RunSummary) -> Recompiling | None:
    """What was compiled again between the first step's start and the last one's end."""
    span = summary.training
    if span is None:
        return None
    found = [
        (max(phase.start_s, span.start_s), min(phase.end_s, span.end_s), phase.detail)
        for phase in run.manifest.phases
        if phase.name == RECOMPILE and phase.end_s is not None
    ]
    inside = sorted((a, b) for a, b, _ in found if b > a)
    if not inside:
        return None
    total_s, until_s = 0.0, span.start_s
    for begin_s, end_s in inside:
        total_s += max(0.0, end_s - max(begin_s, until_s))
        until_s = max(until_s, end_s)
    told = [detail for _, _, detail in found if detail]
    # Its forward and its backward pass are compiled one after the other: one cause, told once.
    return Recompiling(
        count=len(told) or len(inside),
        time_s=total_s,
        training_s=span.length_s,
        steps=summary.steps,
        words=told[-1] if told else None,
    )


def _mean(summary: RunSummary, column: str) -> float | None:
    found = summary.columns.get(column)
    return None if found is None else found.mean


def _throttling(samples: pl.DataFrame) -> tuple[float | None, str | None]:
    import polars as pl

    worst: tuple[float | None, str | None] = None, None
    for column in samples.columns:
        if not column.endswith("_throttle_bits"):
            continue
        bits = samples[column].drop_nulls().cast(pl.Int64, strict=False).drop_nulls()
        if bits.is_empty():
            continue
        slowed = bits.filter((bits & SLOWED_BITS) != 0)
        fraction = len(slowed) / len(bits)
        if fraction > (worst[0] or 0.0):
            reasons = [
                name
                for bit, name in THROTTLE_REASONS.items()
                if bit & SLOWED_BITS and bool(((slowed & bit) != 0).any())
            ]
            worst = fraction, f"{column.removesuffix('_throttle_bits')}: {', '.join(reasons)}"
    return worst


def _swapping(summary: RunSummary) -> tuple[float | None, float | None]:
    """Bytes by which swap grew during training, and their share of the used memory."""
    swap, ram = (summary.columns.get(f"host_{kind}_used_bytes") for kind in ("swap", "ram"))
    if swap is None or ram is None or swap.max is None or swap.min is None or not ram.max:
        return None, None
    grown = swap.max - swap.min
    return grown, grown / ram.max


def _paging(summary: RunSummary) -> tuple[float | None, float | None]:
    """The system's share of the run's processor time, and page faults a second.

    Nothing where so many faults take too little of that share for it to be theirs.
    """
    names = ("run_cpu_s", "run_kernel_s", "run_page_faults_count")
    amounts = [found.amount if (found := summary.counters.get(n)) else None for n in names]
    cpu_s, kernel_s, faults = amounts
    if not cpu_s or not kernel_s or not faults or not summary.covered_s:
        return None, None
    if faults * LEAST_FAULT_S < kernel_s * FAULTS_FRACTION:
        return None, None
    return kernel_s / cpu_s, faults / summary.covered_s


def _short_memory(summary: RunSummary) -> tuple[float | None, str | None]:
    """The memory that is short: the fullest, of which the run itself holds the most."""
    found: dict[str, float] = {}
    for column, values in summary.columns.items():
        if values.max is None:
            continue
        if column.startswith("gpu") and column.endswith("_memory_used_fraction"):
            found[f"memory of {column.split('_')[0]}"] = values.max
        elif column == "cgroup_memory_load_fraction":
            found["the control group's memory"] = values.max
        elif column == "host_ram_load_fraction":
            used = summary.columns.get("host_ram_used_bytes")
            own = summary.peak_rss_bytes or 0.0
            if used is not None and used.max and own >= OWN_FRACTION * used.max:
                found["the machine's memory"] = values.max
    name = max(found, key=lambda name: found[name], default=None)
    if name is not None and found[name] >= SHORT_FRACTION:
        return found[name], name
    if summary.outcome == "out_of_memory":
        return found.get(name or "", 1.0), name or "memory"
    return None, None
