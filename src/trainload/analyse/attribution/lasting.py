"""What tracing leaves behind: steps after the last window against those before the first.

Works on a run's own step times; what a machine does meanwhile of itself is in them too, so that
an interval comes with the figure, and published costs are measured between processes instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainload.analyse.warmup import find_warmup

if TYPE_CHECKING:
    import polars as pl

LEAST_BEFORE, LEAST_AFTER = 5, 10
SKIRT = 2
"""Steps beside a window that may pay for it."""
_DEVIATION = 1.4826
"""Standard deviation of normal values over their median absolute deviation."""
_MEDIAN = 1.2533
"""Error of a median over that of a mean, of normal values: the root of half pi."""
_TWO_SIDED = 1.96


@dataclass(frozen=True, kw_only=True)
class LastingCost:
    """Median step time after the last window over that before the first, with its interval."""

    ratio: float
    low: float
    high: float
    lasting_s: float
    """Seconds that this means for the steps since the first window; 0 where none is shown."""

    @property
    def shown(self) -> bool:
        """Whether the steps became slower beyond doubt."""
        return self.low > 1


def measure_lasting(steps: pl.DataFrame, windows: Sequence[tuple[int, int]]) -> LastingCost | None:
    """The comparison; None without windows, or with too few steps on either side.

    `windows` are the first and last step that each disturbed; warm-up is left out.
    """
    import polars as pl

    if not windows:
        return None
    timed = steps.sort("start_s").with_row_index("row").drop_nulls("step_s")
    timed = timed.filter(pl.col("step_s") > 0)
    first, last = min(begin for begin, _ in windows), max(end for _, end in windows)
    warm = find_warmup(steps).steps
    before = timed.filter((pl.col("step") < first - SKIRT) & (pl.col("row") >= warm))["step_s"]
    if before.len() < LEAST_BEFORE:
        before = timed.filter((pl.col("step") < first - SKIRT) & (pl.col("row") >= 1))["step_s"]
    after = timed.filter(pl.col("step") > last + SKIRT)["step_s"]
    if before.len() < LEAST_BEFORE or after.len() < LEAST_AFTER:
        return None
    (early, early_error), (late, late_error) = _centre(before), _centre(after)
    margin = _TWO_SIDED * math.hypot(early_error, late_error)
    low, high = math.exp(late - early - margin), math.exp(late - early + margin)
    ratio = math.exp(late - early)
    since_s = float(timed.filter(pl.col("step") > first)["step_s"].sum())
    lasting_s = since_s * (1 - 1 / ratio) if low > 1 else 0.0
    return LastingCost(ratio=ratio, low=low, high=high, lasting_s=lasting_s)


def _centre(times_s: pl.Series) -> tuple[float, float]:
    """Median of the logarithms, and its standard error."""
    logs = times_s.log()
    centre = logs.median()
    assert isinstance(centre, float)
    spread = (logs - centre).abs().median()
    assert isinstance(spread, float)
    return centre, _MEDIAN * _DEVIATION * spread / math.sqrt(times_s.len())
