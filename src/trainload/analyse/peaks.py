"""The most memory that a run took, as its record tells; takes a manifest and opens no file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    start, peak = _count(memory.get("start_rss_bytes")), _count(memory.get("peak_rss_bytes"))
    return MeasuredPeak(
        allocated_bytes=_count(memory.get("peak_allocated_bytes")),
        reserved_bytes=_count(memory.get("peak_reserved_bytes")),
        rss_growth_bytes=None if start is None or peak is None else peak - start,
        rss_bytes=peak,
    )


def _count(value: Any) -> int | None:
    """Whole bytes; None for anything else."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
    return int(value) if good and abs(value) < 2**62 else None
