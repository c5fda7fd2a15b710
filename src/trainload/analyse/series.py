"""Samples set against steps, and long series cut to what a screen can show.

Pure functions on frames and series; chooses no column and draws nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

BREAK_PERIODS = 2.5
"""A pause between two rows longer than so many median periods is a gap."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """A stretch of time, in seconds since the run's start."""

    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        """From start to end."""
        return self.end_s - self.start_s


def training_span(steps: pl.DataFrame) -> Span | None:
    """From the first step's start to the last step's end; None without steps.

    Validation between epochs lies inside: the machine carries it for the training's sake.
    """
    if steps.is_empty():
        return None
    start, end = steps["start_s"].min(), steps["end_s"].max()
    assert isinstance(start, float)
    assert isinstance(end, float)
    return Span(start_s=start, end_s=end)


def readings_over(times_s: pl.Series, values: pl.Series, span: Span | None) -> pl.DataFrame:
    """The known readings of one column inside a span as `t_s` and `value`, edges included.

    At the span's start and end the value is interpolated between the readings that bracket
    them; where none lies beyond an edge, the readings begin or end inside. Empty where none
    lies inside: the meter was too slow to tell. Without a span all readings count.
    """
    import polars as pl

    frame = pl.DataFrame({"t_s": times_s, "value": values.cast(pl.Float64).fill_nan(None)})
    known = frame.drop_nulls().sort("t_s")
    if span is None:
        return known
    first = int(known["t_s"].search_sorted(span.start_s, side="left"))
    beyond = int(known["t_s"].search_sorted(span.end_s, side="right"))
    inside = known.slice(first, beyond - first)
    if inside.is_empty():
        return inside
    parts = [inside]
    if first > 0 and known["t_s"][first] > span.start_s:
        parts.insert(0, _interpolated(known, first, span.start_s))
    if beyond < known.height and known["t_s"][beyond - 1] < span.end_s:
        parts.append(_interpolated(known, beyond, span.end_s))
    return pl.concat(parts)


def _interpolated(known: pl.DataFrame, after: int, t_s: float) -> pl.DataFrame:
    """One reading at `t_s`, on the line between the row before `after` and that row."""
    import polars as pl

    (t0_s, low), (t1_s, high) = known.row(after - 1), known.row(after)
    value = low + (high - low) * (t_s - t0_s) / (t1_s - t0_s)
    return pl.DataFrame({"t_s": [t_s], "value": [value]}, schema=known.schema)


def align_to_steps(times_s: pl.Series, steps: pl.DataFrame) -> pl.Series:
    """The iteration at each time: steps finished, plus the share done of the step under way.

    Null before the first step's start and after the last step's end. Between steps, as in
    validation, the count stands still.
    """
    import polars as pl

    name = "iteration"
    span = training_span(steps)
    if span is None or times_s.is_empty():
        return pl.Series(name, [None] * len(times_s), dtype=pl.Float64)
    begun = (
        steps.sort("start_s")
        .select("start_s", "end_s", before=pl.int_range(pl.len()).cast(pl.Float64))
        .with_columns(from_s="start_s")
    )
    asked = times_s.alias("t_s").cast(pl.Float64).to_frame().with_row_index("row").sort("t_s")
    length = pl.max_horizontal(pl.col("end_s") - pl.col("start_s"), 1e-12)
    share = ((pl.col("t_s") - pl.col("start_s")) / length).clip(0.0, 1.0)
    inside = pl.col("t_s").is_between(span.start_s, span.end_s)
    return (
        asked.join_asof(begun, left_on="t_s", right_on="from_s", strategy="backward")
        .sort("row")
        .select(pl.when(inside).then(pl.col("before") + share).alias(name))
        .to_series()
    )


def time_breaks(times_s: pl.Series) -> pl.Series:
    """True at each row that follows a gap: an interval over `BREAK_PERIODS` median ones."""
    import polars as pl

    intervals = times_s.diff()
    median = intervals.median()
    if not isinstance(median, float) or median <= 0:
        return pl.Series("break", [False] * len(times_s), dtype=pl.Boolean)
    return (intervals > BREAK_PERIODS * median).fill_null(False).alias("break")


def bin_rows(
    frame: pl.DataFrame, key: str, columns: Sequence[str], points: int, carried: Sequence[str] = ()
) -> pl.DataFrame:
    """At most `points` rows of `frame`, sorted by `key`: each bin's lowest and highest value.

    The column `segment` numbers stretches that no bin may bridge. Each bin gives two rows, at
    its first and last `key`, with the low and the high of every column in the order they came,
    so spikes stay; `carried` columns give their values at those two rows. A frame short enough
    is answered unchanged.
    """
    import polars as pl

    if frame.height <= points:
        return frame.select("segment", key, *carried, *columns)
    segments = frame["segment"].n_unique()
    bins = max(1, points // 2 - segments)
    low, high = frame[key].min(), frame[key].max()
    assert isinstance(low, float)
    assert isinstance(high, float)
    width = (high - low) / bins or 1.0
    number = ((pl.col(key) - low) / width).floor().clip(0, bins - 1).cast(pl.Int64)
    grouped = frame.with_columns(number.alias("bin")).group_by(
        "segment", "bin", maintain_order=True
    )
    ends = [key, *carried]
    binned = grouped.agg(
        *(pl.col(c).first().alias(f"first {c}") for c in ends),
        *(pl.col(c).last().alias(f"last {c}") for c in ends),
        *(pl.col(c).min().alias(f"low {c}") for c in columns),
        *(pl.col(c).max().alias(f"high {c}") for c in columns),
        *((pl.col(c).arg_min() <= pl.col(c).arg_max()).alias(f"rises {c}") for c in columns),
    )
    halves = [_half(binned, key, columns, carried, first=first) for first in (True, False)]
    return pl.concat(halves).sort("segment", "bin", "half").drop("bin", "half")


def _half(
    binned: pl.DataFrame, key: str, columns: Sequence[str], carried: Sequence[str], *, first: bool
) -> pl.DataFrame:
    import polars as pl

    at = "first" if first else "last"
    return binned.select(
        "segment",
        pl.col(f"{at} {key}").alias(key),
        *(pl.col(f"{at} {c}").alias(c) for c in carried),
        *(
            pl.when(pl.col(f"rises {c}") == first)
            .then(pl.col(f"low {c}"))
            .otherwise(pl.col(f"high {c}"))
            .alias(c)
            for c in columns
        ),
        "bin",
        pl.lit(0 if first else 1).alias("half"),
    )
