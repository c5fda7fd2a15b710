"""Whether repeated measurements are of one thing: drift, outliers, spread; imports nothing of ours.

Pure arithmetic on plain numbers, for whoever measures and for whoever reads.
"""

import math
import statistics
from collections.abc import Sequence

FEWEST = 3
"""Values below which nothing is said."""
WIDEST_STEADY = 0.10
"""Robust spread over the median above which a cell is called unstable."""
FAR_OUT = 5.0
"""Robust deviations from the median beyond which a value is an outlier."""
FEWEST_FOR_DRIFT = 8
DRIFT_CHANCE = 0.01


def unstable_reason(values: Sequence[float]) -> str | None:
    """Why a cell cannot be trusted to be one thing: drift, outliers or spread; None if it can.

    Drift: Mann and Kendall's test at 1 %, from eight values. Outliers: beyond five robust
    deviations (1.4826 · median absolute deviation), from five values. Spread: that deviation above
    a tenth of the median; under five values the plain deviation.
    """
    n = len(values)
    if n < FEWEST:
        return None
    if n >= FEWEST_FOR_DRIFT and (rising := _trend(values)):
        return f"drifts {rising} over the {n} repetitions"
    center = statistics.median(values)
    away = [abs(value - center) for value in values]
    deviation = 1.4826 * statistics.median(away) if n >= 5 else statistics.stdev(values)
    far = sum(a > FAR_OUT * deviation for a in away) if n >= 5 and deviation > 0 else 0
    if far:
        return f"{far} of {n} values lie beyond {FAR_OUT:g} robust deviations of the median"
    if center and deviation > WIDEST_STEADY * abs(center):
        return f"varies by {deviation / abs(center):.0%} of its median"
    return None


def _trend(values: Sequence[float]) -> str | None:
    """`up` or `down` where Mann and Kendall's test finds a trend, by its normal form."""
    n = len(values)
    score = sum(
        (later > earlier) - (later < earlier)
        for i, earlier in enumerate(values)
        for later in values[i + 1 :]
    )
    ties = [sum(value == other for other in values) for value in set(values)]
    spread = n * (n - 1) * (2 * n + 5) - sum(t * (t - 1) * (2 * t + 5) for t in ties)
    if spread <= 0:
        return None
    z = max(abs(score) - 1, 0) / math.sqrt(spread / 18)
    if 2 * statistics.NormalDist().cdf(-z) >= DRIFT_CHANCE:
        return None
    return "up" if score > 0 else "down"
