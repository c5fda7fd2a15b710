"""Joules of a stretch of step time: mean power in training times the time, with a range.

Which layer drew more than its share of the time nobody can see: meters refresh ten times a second
at best, layers last microseconds. The range says how far power strayed from its mean.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainload.analyse.attribution.types import EnergyShare
from trainload.analyse.energy import EnergySummary
from trainload.analyse.summary import RunSummary

if TYPE_CHECKING:
    import polars as pl

LOW_QUANTILE, HIGH_QUANTILE = 0.05, 0.95
FEWEST_READINGS = 5
"""Readings of power in training below which their quantiles say nothing."""
_POWER, _ENERGY = "_power_w", "_energy_j"


@dataclass(frozen=True, kw_only=True)
class PowerRange:
    """Mean power of one source in training, in watts, and how far it may be off for a layer."""

    source: str
    mean_w: float
    low_w: float
    high_w: float

    def share(self, time_s: float) -> EnergyShare:
        """Joules of one step for `time_s` of it: at mean power, and at both ends of the range."""
        return EnergyShare(
            energy_j=self.mean_w * time_s, low_j=self.low_w * time_s, high_j=self.high_w * time_s
        )


def find_power(summary: RunSummary, samples: pl.DataFrame, device: str) -> PowerRange | None:
    """Mean power of a device during training, in watts; None where no meter reads that device.

    The mean is that of the run's energy summary. The range is, with readings of power, from
    their 5th to their 95th percentile in training; with a joule counter alone, the error of
    its two edges: one refresh of the counter set against the time it was read over.
    """
    source = _source_of(device, summary.energy)
    mean_w = source.mean_power_w if source else None
    if source is None or mean_w is None:
        return None
    readings = _readings(summary, samples, source.source + _POWER)
    if readings is not None and len(readings) >= FEWEST_READINGS:
        low_w, high_w = (readings.quantile(q, "linear") for q in (LOW_QUANTILE, HIGH_QUANTILE))
        assert low_w is not None
        assert high_w is not None
        return PowerRange(
            source=source.source,
            mean_w=mean_w,
            low_w=min(low_w, mean_w),
            high_w=max(high_w, mean_w),
        )
    counter = _readings(summary, samples, source.source + _ENERGY)
    if source.column.endswith(_ENERGY) and counter is not None and source.between_s:
        changes = int((counter.diff() != 0).sum())
        error = min(1.0, 1 / changes) if changes else 1.0
        return PowerRange(
            source=source.source,
            mean_w=mean_w,
            low_w=mean_w * (1 - error),
            high_w=mean_w * (1 + error),
        )
    return None


def _source_of(device: str, sources: Sequence[EnergySummary]) -> EnergySummary | None:
    """The source that meters a device: sources overlap, so exactly one is taken."""
    by_name = {source.source: source for source in sources if source.mean_power_w is not None}
    if device.startswith("cuda"):
        gpus = [name for name in by_name if re.fullmatch(r"gpu\d+", name)]
        number = device.partition(":")[2] or "0"
        if f"gpu{number}" in by_name:
            return by_name[f"gpu{number}"]
        return by_name[gpus[0]] if len(gpus) == 1 else None
    packages = [name for name in by_name if re.fullmatch(r"rapl_package_\d+", name)]
    return by_name[packages[0]] if len(packages) == 1 else None


def _readings(summary: RunSummary, samples: pl.DataFrame, column: str) -> pl.Series | None:
    import polars as pl

    if column not in samples.columns or summary.training is None:
        return None
    span = summary.training
    inside = samples.sort("t_s").filter(pl.col("t_s").is_between(span.start_s, span.end_s))
    return inside[column].cast(pl.Float64).fill_nan(None).drop_nulls()
