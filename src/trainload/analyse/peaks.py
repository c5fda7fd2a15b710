"""The most memory that a run took, as its record tells; takes records and opens no file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import polars as pl

    from trainload.record import Manifest

_GPU_OF_RUN = re.compile(r"gpu\d+_run_memory_bytes")


@dataclass(frozen=True, kw_only=True)
class MeasuredPeak:
    """What real steps took; a figure is None where nothing tells it."""

    allocated_bytes: int | None
    reserved_bytes: int | None
    rss_growth_bytes: int | None
    """By building and training: the peak less what the process had before."""
    rss_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class MeasuredSteps:
    """A few real steps on this machine, kept as a run."""

    path: str
    """Of the run directory."""
    outcome: str
    """With its reason where there is one."""
    steps: int | None
    """None where the run did not end well."""
    peak: MeasuredPeak


def measured_peak(manifest: Manifest) -> MeasuredPeak:
    """The peaks of a run's own process."""
    memory = manifest.memory
    start, peak = memory.start_rss_bytes, memory.peak_rss_bytes
    return MeasuredPeak(
        allocated_bytes=memory.peak_allocated_bytes,
        reserved_bytes=memory.peak_reserved_bytes,
        rss_growth_bytes=None if start is None or peak is None else peak - start,
        rss_bytes=peak,
    )


@dataclass(frozen=True, kw_only=True)
class RunPeaks:
    """The most memory that all processes of a run took; a figure is None where nothing tells it."""

    host_bytes: float | None = None
    host_source: Literal["pss", "rss", "summed rss"] | None = None
    """pss: shared pages divided among their users; rss: of a single process; summed rss: of several
    processes, in which a page that they share counts in each."""
    summed_rss_bytes: float | None = None
    gpu_allocated_bytes: int | None = None
    """By torch's allocator in the first process."""
    gpu_reserved_bytes: int | None = None
    gpu_process_bytes: float | None = None
    """Of the fullest GPU, by all processes of the run, as its driver tells; read once a second."""


def run_peaks(manifest: Manifest, samples: pl.DataFrame) -> RunPeaks:
    """The peaks over the whole run."""
    memory = manifest.memory
    host_bytes, source = _host_peak(samples)
    used = [largest(samples, name) for name in samples.columns if _GPU_OF_RUN.fullmatch(name)]
    return RunPeaks(
        host_bytes=host_bytes,
        host_source=source,
        summed_rss_bytes=largest(samples, "run_rss_bytes"),
        gpu_allocated_bytes=memory.peak_allocated_bytes or None,
        gpu_reserved_bytes=memory.peak_reserved_bytes or None,
        gpu_process_bytes=max((value for value in used if value), default=None),
    )


def _host_peak(
    samples: pl.DataFrame,
) -> tuple[float | None, Literal["pss", "rss", "summed rss"] | None]:
    """PSS is read seldom, so that of a single process its resident size is the better figure."""
    summed = largest(samples, "run_rss_bytes")
    processes = largest(samples, "run_processes_count")
    if summed is not None and processes is not None and processes <= 1:
        return summed, "rss"
    shared = largest(samples, "run_pss_bytes")
    # The first reading is from before the program began.
    if shared is not None and samples["run_pss_bytes"].drop_nulls().len() > 1:
        return shared, "pss"
    return summed, None if summed is None else "summed rss"


def largest(frame: pl.DataFrame, column: str) -> float | None:
    """The highest value of a column; None where there is none."""
    value = frame[column].max() if column in frame.columns else None
    return float(value) if isinstance(value, int | float) else None
