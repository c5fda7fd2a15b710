"""Confidence intervals of paired differences, robust to a noisy machine; imports nothing of ours.

Pure arithmetic on plain numbers: no file, no device, no library beyond the standard one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A central value with the bounds of its two-sided confidence interval."""

    value: float
    low: float
    high: float
    confidence: float
    observations: int

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


def student_t_quantile(probability: float, degrees: int) -> float:
    """Quantile of Student's t distribution, by bisection on its distribution function."""
    if not 0.5 <= probability < 1:
        raise ValueError("probability must lie in [0.5, 1)")
    if degrees < 1:
        raise ValueError("degrees of freedom must be at least 1")
    low, high = 0.0, 1.0
    while _student_t_cdf(high, degrees) < probability:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        if _student_t_cdf(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _student_t_cdf(t: float, degrees: int) -> float:
    """Distribution function for t >= 0 through the regularised incomplete beta function."""
    x = degrees / (degrees + t * t)
    return 1 - _regularised_beta(x, degrees / 2, 0.5) / 2


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
