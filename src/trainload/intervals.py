"""Confidence intervals of medians and differences on a noisy machine; imports nothing of ours.

Pure arithmetic on plain numbers: no file, no device, no library beyond the standard one, since
whoever measures has to know when it is enough. docs/statistics.md says which interval when.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

FEWEST = 3
"""Values below which no interval of a median is stated."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A central value with the bounds of its two-sided confidence interval."""

    value: float
    low: float
    high: float
    confidence: float
    observations: int
    method: str | None = None
    """How it was found, in words; None where only one way is in use."""

    @property
    def half_width(self) -> float:
        """Half the distance between the bounds, in the value's unit."""
        return (self.high - self.low) / 2

    def contains(self, point: float) -> bool:
        """Whether `point` lies inside the bounds, ends included."""
        return self.low <= point <= self.high


def trimmed_mean_interval(
    values: Sequence[float], *, trim_fraction: float = 0.2, confidence: float = 0.95
) -> Interval | None:
    """Trimmed mean with its interval from the winsorised variance.

    Tukey and McLaughlin 1963: t = (trimmed mean) / (s_w / ((1 - 2γ)·√n)) with h - 1 degrees of
    freedom, h values kept. None with under four values kept: no spread can be stated.
    """
    n = len(values)
    cut = int(trim_fraction * n)
    kept = n - 2 * cut
    if kept < 4:
        return None
    ordered = sorted(values)
    center = math.fsum(ordered[cut : n - cut]) / kept
    low_edge, high_edge = ordered[cut], ordered[n - cut - 1]
    winsorised = [min(max(v, low_edge), high_edge) for v in ordered]
    mean = math.fsum(winsorised) / n
    variance = math.fsum((v - mean) ** 2 for v in winsorised) / (n - 1)
    error = math.sqrt(variance) / ((1 - 2 * cut / n) * math.sqrt(n))
    margin = student_t_quantile((1 + confidence) / 2, kept - 1) * error
    return Interval(
        value=center,
        low=center - margin,
        high=center + margin,
        confidence=confidence,
        observations=n,
    )


def ratio_interval(
    log_ratios: Sequence[float], *, trim_fraction: float = 0.2, confidence: float = 0.95
) -> Interval | None:
    """Interval of a ratio from the logarithms of its paired observations; None when too few."""
    logs = trimmed_mean_interval(log_ratios, trim_fraction=trim_fraction, confidence=confidence)
    if logs is None:
        return None
    return Interval(
        value=math.exp(logs.value),
        low=math.exp(logs.low),
        high=math.exp(logs.high),
        confidence=confidence,
        observations=logs.observations,
    )


def median_interval(values: Sequence[float], *, confidence: float = 0.95) -> Interval | None:
    """Interval of the median that holds at the number of values there is.

    From order statistics where they reach the confidence (six values for 95 %), whatever the
    distribution; below that from t on logarithms, or on the values where one is not positive.
    None with under three values, and where fewer than order statistics need are all equal: that
    says nothing of the spread.
    """
    n = len(values)
    if n < FEWEST:
        return None
    ordered = sorted(values)
    found = _order_positions(n, confidence)
    if found is None:
        return _t_median_interval(ordered, confidence)
    rank, share = found
    low = ordered[rank - 1] + share * (ordered[rank] - ordered[rank - 1])
    high = ordered[n - rank] - share * (ordered[n - rank] - ordered[n - rank - 1])
    return Interval(
        value=statistics.median(ordered),
        low=low,
        high=high,
        confidence=confidence,
        observations=n,
        method="order statistics",
    )


def _t_median_interval(ordered: Sequence[float], confidence: float) -> Interval | None:
    if ordered[0] == ordered[-1]:
        return None
    n, logs = len(ordered), ordered[0] > 0
    scaled = [math.log(value) for value in ordered] if logs else list(ordered)
    center = math.fsum(scaled) / n
    error = math.sqrt(math.fsum((v - center) ** 2 for v in scaled) / (n - 1) / n)
    margin = student_t_quantile((1 + confidence) / 2, n - 1) * error
    low, high = center - margin, center + margin
    return Interval(
        value=statistics.median(ordered),
        low=_exp(low) if logs else low,
        high=_exp(high) if logs else high,
        confidence=confidence,
        observations=n,
        method="t on logarithms" if logs else "t",
    )


def _exp(power: float) -> float:
    """e to a power, infinite where a float cannot hold it."""
    return math.exp(power) if power < 709 else math.inf


@lru_cache(maxsize=4096)
def _order_positions(n: int, confidence: float) -> tuple[int, float] | None:
    """Which order statistic is the lower bound, from 1, and how far towards the next one.

    Interpolated after Hettmansperger and Sheather 1986, so that the confidence is met
    rather than passed by. None where even minimum and maximum do not reach it.
    """
    below, rank = 2.0**-n, 1  # P(fewer than `rank` values lie below the median)
    if 1 - 2 * below < confidence:
        return None
    while rank < n // 2:
        further = below + math.comb(n, rank) * 2.0**-n
        if 1 - 2 * further < confidence:
            step = (1 - 2 * below - confidence) / (2 * (further - below))
            return rank, (n - rank) * step / (rank + (n - 2 * rank) * step)
        below, rank = further, rank + 1
    return rank, 0.0


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Of two means, with its standard error and Welch's degrees of freedom."""

    value: float
    error: float
    degrees: float

    def chance_above(self, point: float) -> float:
        """One-sided p-value of the claim that the true difference is above `point`."""
        return student_t_tail((self.value - point) / self.error, self.degrees)


@dataclass(frozen=True, kw_only=True)
class Mean:
    """The mean of some values and the square of its standard error."""

    value: float
    squared_error: float
    observations: int


def mean_of(values: Sequence[float]) -> Mean:
    """Mean and squared standard error; ValueError with under two values."""
    n = len(values)
    if n < 2:
        raise ValueError("a mean's error needs two values")
    center = math.fsum(values) / n
    squares = math.fsum((value - center) ** 2 for value in values)
    return Mean(value=center, squared_error=squares / (n - 1) / n, observations=n)


def welch_difference(one: Mean, other: Mean) -> Difference | None:
    """`one` minus `other`, variances unequal (Welch 1947); None where neither side varies."""
    total = one.squared_error + other.squared_error
    if total <= 0:
        return None
    parts = sum(m.squared_error**2 / (m.observations - 1) for m in (one, other))
    return Difference(
        value=one.value - other.value, error=math.sqrt(total), degrees=total**2 / parts
    )


def student_t_tail(t: float, degrees: float) -> float:
    """Chance that Student's t is above `t`."""
    upper = _regularised_beta(degrees / (degrees + t * t), degrees / 2, 0.5) / 2
    return upper if t >= 0 else 1 - upper


@lru_cache(maxsize=4096)
def student_t_quantile(probability: float, degrees: float) -> float:
    """Quantile of Student's t distribution, by bisection on its distribution function."""
    if not 0.5 <= probability < 1:
        raise ValueError("probability must lie in [0.5, 1)")
    if degrees <= 0:
        raise ValueError("degrees of freedom must be above 0")
    low, high = 0.0, 1.0
    while student_t_tail(high, degrees) > 1 - probability:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        if student_t_tail(middle, degrees) > 1 - probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _regularised_beta(x: float, a: float, b: float) -> float:
    """I_x(a, b) by its continued fraction (Numerical Recipes, 3rd ed., section 6.4)."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _regularised_beta(1 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(1 - x)
    )
    tiny = 1e-300
    c, d = 1.0, 1 / max(1 - (a + b) * x / (a + 1), tiny)
    fraction = d
    for m in range(1, 300):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / max(1 + even * d, tiny)
        c = max(1 + even / c, tiny)
        fraction *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / max(1 + odd * d, tiny)
        c = max(1 + odd / c, tiny)
        fraction *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return front * fraction / a
