"""What a machine was measured to reach, as the few figures that suggestions rest on."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from trainload.hardware.limits import MachineLimits
from trainload.units import render_percent

OTHERS = 0.1
"""Share of the cores that others took from which on figures are said to have suffered."""


@dataclass(frozen=True, kw_only=True)
class Reach:
    """Medians of `trainload detect --measure`; None where it could not measure."""

    taken_at: str
    threads: int | None = None
    """Those of the rates of all threads."""
    one_thread_flop_per_s: float | None = None
    """Of a product of float32 matrices on the processor."""
    float32_flop_per_s: float | None = None
    bf16_flop_per_s: float | None = None
    small_page_load_s: float | None = None
    """A load from the most pages that were tried, each another one."""
    huge_page_load_s: float | None = None
    drive_bytes_per_s: float | None = None
    """Read in order, past the page cache."""

    others_fraction: float | None = None
    """Of the cores, what others took while products were timed."""

    @property
    def day(self) -> str:
        """When it was measured, and that others were at work where they were."""
        day = self.taken_at[:10]
        if self.others_fraction is None or self.others_fraction <= OTHERS:
            return day
        return f"{day}, while others took {render_percent(self.others_fraction, 0)} of the cores"


def reach_of(limits: MachineLimits) -> Reach:
    """The figures of a file of limits."""
    counts = {
        int(reading.at["threads"])
        for one in limits.measured
        if one.program == "matrix-rate"
        for reading in one.readings
        if reading.at.get("threads", "").isdecimal()
    }
    most = max(counts, default=None)
    pages = [
        int(reading.at["pages"])
        for one in limits.measured
        if one.program == "tlb-reach"
        for reading in one.readings
        if reading.at.get("pages", "").isdecimal()
    ]
    far = str(max(pages, default=0))
    products = limits.find("matrix-rate")
    return Reach(
        others_fraction=None if products is None else products.others_fraction,
        taken_at=limits.taken_at,
        threads=most,
        one_thread_flop_per_s=_rate(limits, "float32", 1),
        float32_flop_per_s=_rate(limits, "float32", most),
        bf16_flop_per_s=_rate(limits, "bfloat16", most),
        small_page_load_s=_median(limits, "tlb-reach", pages=far, page="small"),
        huge_page_load_s=_median(limits, "tlb-reach", pages=far, page="huge"),
        drive_bytes_per_s=_median(limits, "drive-read", place="drive", pattern="sequential"),
    )


def _rate(limits: MachineLimits, dtype: str, threads: int | None) -> float | None:
    return _median(limits, "matrix-rate", device="cpu", dtype=dtype, threads=str(threads))


def _median(limits: MachineLimits, program: str, **at: str) -> float | None:
    """Of the samples under these conditions; None where there are none above nought."""
    found = limits.find(program)
    for reading in () if found is None else found.readings:
        if all(reading.at.get(name) == level for name, level in at.items()) and reading.values:
            value = statistics.median(reading.values)
            return value if value > 0 else None
    return None
