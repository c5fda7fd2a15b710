"""The most memory that a run took, as its record tells; takes a manifest and opens no file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainload.record import Manifest


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
