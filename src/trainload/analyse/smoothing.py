"""Moving averages of raw series, for drawing; the raw values stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

WINDOWS = (50, 100)
"""Neighbours averaged over; source: Finocchiaro 2024, who smooths each load with one of the two."""


def moving_average(values: pl.Series | Sequence[float | None], window: int) -> pl.Series:
    """Mean over the `window` neighbours centred on each value, in the values' unit.

    An even window holds one more value before than after. At the edges the part that exists
    counts; nulls are left out, and a window without any value gives null.
    """
    import polars as pl

    series = values if isinstance(values, pl.Series) else pl.Series("value", values, pl.Float64)
    return series.to_frame().select(average_expression(series.name, window)).to_series()


def average_expression(column: str, window: int) -> pl.Expr:
    """`moving_average` of one column as an expression, so that many run in one pass."""
    import polars as pl

    if window < 1:
        raise ValueError("a moving average needs a window of at least 1")
    finite = pl.col(column).cast(pl.Float64).fill_nan(None)
    return finite.rolling_mean(window, center=True, min_samples=1)
