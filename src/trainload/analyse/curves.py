"""Series ready to be drawn: cut to a screen's worth of points, smoothed, against both axes.

Chooses no colour and no unit; averages are taken over all readings before any is cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trainload.analyse.series import align_to_steps, bin_rows, time_breaks
from trainload.analyse.smoothing import WINDOWS, average_expression

if TYPE_CHECKING:
    import polars as pl

MOST_POINTS = 3000
MOST_BREAKS = 500
"""With more gaps than this, gaps no longer cut the line: it would be all gaps."""
DIGITS = 5
"""Significant digits kept for drawing."""

Values = list[float | None]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Where the points of some curves lie on both axes."""

    times_s: Values
    iterations: Values
    """Null outside training."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One column over a grid; null values are gaps."""

    column: str
    grid: int
    """Position of its grid in the set."""
    raw: Values
    averages: Mapping[int, Values] = field(default_factory=dict)
    """Moving averages by window."""


@dataclass(frozen=True, kw_only=True)
class CurveSet:
    """Curves and the grids they share."""

    grids: tuple[Grid, ...] = ()
    curves: tuple[Curve, ...] = ()


def sample_curves(
    samples: pl.DataFrame,
    steps: pl.DataFrame,
    columns: Sequence[str],
    *,
    windows: Sequence[int] = WINDOWS,
    points: int = MOST_POINTS,
) -> CurveSet:
    """Curves of metered columns; a column without a single value has none.

    A column read more seldom than each sample gets its own grid, so that its line joins its
    readings; where samples or readings are missing the line has a gap.
    """
    import polars as pl

    if samples.is_empty() or not columns:
        return CurveSet()
    frame = samples.sort("t_s").with_columns(pl.col(*columns).cast(pl.Float64).fill_nan(None))
    frame = frame.with_columns(align_to_steps(frame["t_s"], steps))
    known = frame.select(pl.col(*columns).count()).row(0, named=True)
    apart = frame.select(
        pl.col(c).is_not_null().arg_true().cast(pl.Int64).diff().median().alias(c) for c in columns
    ).row(0, named=True)
    present = [c for c in columns if known[c]]
    seldom = [c for c in present if (apart[c] or 1) > 1]
    dense = [c for c in present if c not in seldom]
    parts = ([dense] if dense else []) + [[c] for c in seldom]
    grids, curves = [], []
    for position, part in enumerate(parts):
        rows = frame.drop_nulls(part) if part[0] in seldom else frame
        breaks = time_breaks(rows["t_s"])
        if breaks.sum() > MOST_BREAKS:
            breaks = pl.zeros(rows.height, dtype=pl.Int64, eager=True)
        rows = rows.with_columns(breaks.cast(pl.Int64).cum_sum().alias("segment"))
        grid, drawn = _cut(rows, part, windows, points, position)
        grids.append(grid)
        curves += drawn
    order = {column: at for at, column in enumerate(columns)}
    return CurveSet(grids=tuple(grids), curves=tuple(sorted(curves, key=lambda c: order[c.column])))


def loss_curve(
    steps: pl.DataFrame,
    *,
    told: bool = True,
    windows: Sequence[int] = WINDOWS,
    points: int = MOST_POINTS,
) -> CurveSet:
    """The training loss at each step's end; a loss that was not finite is a gap.

    Where losses are not told of all steps (`told`), the line goes on over those without one.
    """
    import polars as pl

    if steps["loss"].count() == 0:
        return CurveSet()
    rows = steps if told else steps.drop_nulls("loss")
    frame = rows.sort("end_s").select(
        pl.col("end_s").alias("t_s"),
        (pl.col("step") + 1).cast(pl.Float64).alias("iteration"),
        "loss",
        pl.lit(0).alias("segment"),
    )
    grid, curves = _cut(frame, ["loss"], windows, points, 0)
    return CurveSet(grids=(grid,), curves=tuple(curves))


def step_curves(
    steps: pl.DataFrame,
    *,
    batch_size: int | None = None,
    windows: Sequence[int] = WINDOWS,
    points: int = MOST_POINTS,
) -> CurveSet:
    """Step time and examples a second at each step's end; a column without a value has none.

    A step that does not tell its examples has those of a batch.
    """
    import polars as pl

    if steps.is_empty():
        return CurveSet()
    examples = pl.col("examples").fill_null(pl.lit(batch_size, pl.Int64))
    frame = steps.sort("end_s").select(
        pl.col("end_s").alias("t_s"),
        (pl.col("step") + 1).cast(pl.Float64).alias("iteration"),
        "step_s",
        (examples / pl.when(pl.col("step_s") > 0).then(pl.col("step_s"))).alias("examples_per_s"),
        pl.lit(0).alias("segment"),
    )
    told = [c for c in ("step_s", "examples_per_s") if frame[c].count()]
    grid, curves = _cut(frame, told, windows, points, 0)
    return CurveSet(grids=(grid,), curves=tuple(curves))


def epoch_curves(epochs: pl.DataFrame, steps: pl.DataFrame, columns: Sequence[str]) -> CurveSet:
    """Columns of the epochs table at each epoch's end, raw; a column without a value has none."""
    import polars as pl

    rows = epochs.sort("end_s")
    shown = [c for c in columns if c in rows.columns and rows[c].count()]
    if not shown:
        return CurveSet()
    finished = steps["end_s"].sort().search_sorted(rows["end_s"], side="right")
    grid = Grid(
        times_s=rows["end_s"].round(4).to_list(),
        iterations=pl.Series(finished, dtype=pl.Float64).to_list(),
    )
    curves = (Curve(column=c, grid=0, raw=rows[c].round_sig_figs(DIGITS).to_list()) for c in shown)
    return CurveSet(grids=(grid,), curves=tuple(curves))


def _cut(
    frame: pl.DataFrame, columns: Sequence[str], windows: Sequence[int], points: int, position: int
) -> tuple[Grid, list[Curve]]:
    """The curves of columns that share their rows; `frame` has `t_s`, `iteration`, `segment`."""
    import polars as pl

    names = {(c, w): f"average {w} {c}" for c in columns for w in windows}
    smoothed = frame.with_columns(
        average_expression(c, w).alias(name) for (c, w), name in names.items()
    )
    segments = frame["segment"].n_unique()
    cut = bin_rows(
        smoothed, "t_s", columns, points - segments, carried=["iteration", *names.values()]
    ).with_row_index("order")
    # A row of nulls after each segment but the last breaks the line there.
    ends = (
        cut.group_by("segment", maintain_order=True)
        .agg(pl.col("order").last(), pl.col("t_s", "iteration").last())
        .head(-1)
    )
    cut = pl.concat([cut, ends], how="diagonal").sort("order", maintain_order=True)
    digits = pl.col(*columns, *names.values()).round_sig_figs(DIGITS)
    cut = cut.with_columns(digits, pl.col("t_s").round(4), pl.col("iteration").round(2))
    grid = Grid(times_s=cut["t_s"].to_list(), iterations=cut["iteration"].to_list())
    curves = [
        Curve(
            column=c,
            grid=position,
            raw=cut[c].to_list(),
            averages={w: cut[names[c, w]].to_list() for w in windows},
        )
        for c in columns
    ]
    return grid, curves
