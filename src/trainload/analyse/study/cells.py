"""Every cell in figures: mean, deviation, median with its interval, lowest, highest, count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainload.analyse.study.tidy import TidyStudy
from trainload.intervals import FEWEST, median_interval
from trainload.steadiness import unstable_reason

if TYPE_CHECKING:
    import polars as pl

_FIGURES = ("mean", "deviation", "median", "low", "high", "min", "max")


def cell_table(
    study: TidyStudy, metrics: Sequence[str] | None = None, *, confidence: float = 0.95
) -> pl.DataFrame:
    """One row for each cell and metric it has; `low` and `high` bound the median.

    They are null where the repetitions say nothing, and `note` says why, or how they were found.
    """
    import polars as pl

    wanted = study.metrics if metrics is None else tuple(metrics)
    order = ["cell", "repetition", *study.factors]
    rows: list[dict[str, Any]] = []
    for part in study.counted.sort("repetition").partition_by("cell", maintain_order=True):
        head = part.select(order).row(0, named=True)
        for metric in wanted:
            values = part[metric].drop_nulls()
            if values.len():
                rows.append({**head, "metric": metric, **_figures(values, confidence)})
    schema: Mapping[str, Any] = {
        **dict.fromkeys(("cell", *study.factors, "metric"), pl.String),
        "n": pl.Int64,
        **dict.fromkeys(_FIGURES, pl.Float64),
        "note": pl.String,
        "unstable": pl.String,
    }
    whole = [{name: row[name] for name in schema} for row in rows]
    return pl.DataFrame(whole, schema=schema, orient="row").sort("cell", maintain_order=True)


def _figures(series: pl.Series, confidence: float) -> dict[str, Any]:
    values = series.to_list()
    found = median_interval(values, confidence=confidence)
    few = f"says nothing: under {FEWEST} repetitions"
    silent = few if len(values) < FEWEST else "says nothing: all values are equal"
    return {
        "n": len(values),
        "mean": series.mean(),
        "deviation": series.std() if len(values) > 1 else None,
        "median": series.median(),
        "low": None if found is None else found.low,
        "high": None if found is None else found.high,
        "min": series.min(),
        "max": series.max(),
        "note": silent if found is None else found.method,
        "unstable": unstable_reason(values),
    }
