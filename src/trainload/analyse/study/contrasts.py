"""Weighted sums of cell means with error and p-value, and their correction for being many.

Takes plain numbers, gives values; scipy has the distributions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainload.errors import MissingPart
from trainload.intervals import mean_of


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """A difference on the scale of its values, with what a t statistic needs."""

    value: float
    error: float
    degrees: float

    @property
    def p_value(self) -> float:
        """Two-sided chance of so large a value without any difference."""
        # The distribution of scipy.stats.t, without the two seconds that importing stats takes.
        from scipy.special import stdtr

        return float(2 * stdtr(self.degrees, -abs(self.value) / self.error))

    def bounds(self, chance: float) -> tuple[float, float]:
        """Two-sided interval that misses the truth with this chance."""
        from scipy.special import stdtrit

        margin = -float(stdtrit(self.degrees, chance / 2)) * self.error
        return self.value - margin, self.value + margin


Pair = tuple[Sequence[float], Sequence[float]]


def mean_difference(pairs: Sequence[Pair]) -> Contrast | None:
    """Mean over the pairs of (mean of the first - mean of the second).

    By Welch and Satterthwaite from the spread within each cell; with one pair this is Welch's test.
    Where a cell has a single value but there are three pairs or more, by t over the pairs'
    differences. None where neither can be done, or where nothing varies.
    """
    if not pairs:
        return None
    if all(len(values) > 1 for pair in pairs for values in pair):
        found = [(mean_of(one), mean_of(other)) for one, other in pairs]
        share = 1 / len(pairs) ** 2
        parts = [(share * m.squared_error, m.observations - 1) for pair in found for m in pair]
        squared = math.fsum(part for part, _ in parts)
        if squared <= 0:
            return None
        value = math.fsum(one.value - other.value for one, other in found) / len(pairs)
        degrees = squared**2 / math.fsum(part**2 / free for part, free in parts)
        return Contrast(value=value, error=math.sqrt(squared), degrees=degrees)
    if len(pairs) < 3:
        return None
    gaps = [math.fsum(one) / len(one) - math.fsum(other) / len(other) for one, other in pairs]
    over = mean_of(gaps)
    if over.squared_error <= 0:
        return None
    return Contrast(value=over.value, error=math.sqrt(over.squared_error), degrees=len(pairs) - 1)


def holm_levels(p_values: Sequence[float], chance: float) -> list[float]:
    """The level at which Holm's procedure judges each p-value (Holm 1979).

    A p-value below its level is a difference; an interval at that level says the same.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    levels = [chance] * len(p_values)
    level = 0.0
    stopped = False
    for place, position in enumerate(order):
        if not stopped:
            level = chance / (len(p_values) - place)
        levels[position] = level
        stopped = stopped or p_values[position] >= level
    return levels


def require_scipy() -> None:
    """MissingPart, with the command that mends it, where scipy is not installed."""
    import importlib.util

    if importlib.util.find_spec("scipy") is None:
        raise MissingPart(
            "comparing cells needs scipy, which is not installed; pip install 'trainload[report]'"
        )
