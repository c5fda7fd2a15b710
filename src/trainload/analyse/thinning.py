"""Long series thinned to a few points that keep every lowest and highest value, and the mean.

Frames in, arrays out; numpy does the work, since a study has hundreds of runs to thin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

    Array = np.ndarray[Any, np.dtype[np.float64]]

GAP_WIDTHS = 2.5
"""Of a point's width: a longer stretch without readings is drawn as a gap."""
SELDOM = 0.5
"""Of the rows: a column read in fewer than this joins its readings over the rows between."""


@dataclass(frozen=True, kw_only=True)
class ThinColumn:
    """One column at the points of its series; NaN where a point has no reading."""

    low: Array
    mean: Array
    high: Array
    seldom: bool = False
    """Read at few of the rows, so that rows without a reading are no gaps."""
    span: tuple[float, float, float] | None = None
    """Lowest, mean and highest of all readings in training, of the whole run without a step."""


@dataclass(frozen=True, kw_only=True)
class ThinSeries:
    """Columns over shared points; in each point stand the readings of a stretch of time."""

    times_s: Array
    """Middle of each point's readings."""
    iterations: Array
    """Steps finished by then; NaN outside training."""
    readings: int
    """Rows before thinning."""
    columns: Mapping[str, ThinColumn]

    @property
    def per_point(self) -> float:
        """Readings in one point; 1 where nothing was thinned."""
        points = max(1, len(self.times_s))
        return max(1.0, self.readings / points)


def thin_samples(
    samples: pl.DataFrame, steps: pl.DataFrame, columns: Sequence[str], *, points: int
) -> ThinSeries | None:
    """The columns of a samples table that hold a value, in at most so many points.

    None where no column has one. Stretches are of equal time; each keeps its lowest, its highest
    and its mean reading, so that no spike is lost.
    """
    present = [
        c for c in columns if c in samples.columns and samples[c].null_count() < len(samples)
    ]
    if not present:
        return None
    table = {name: _numbers(samples[name]) for name in present}
    return _thin(_numbers(samples["t_s"]), table, _step_ends(steps), points)


def thin_steps(
    steps: pl.DataFrame, *, points: int, batch_size: int | None = None
) -> ThinSeries | None:
    """Step time, loss and throughput at the end of each step; None without steps.

    A step that does not tell its examples has those of a batch.
    """
    import numpy as np

    if steps.is_empty():
        return None
    step_s, examples = _numbers(steps["step_s"]), _numbers(steps["examples"])
    if batch_size is not None:
        examples = np.where(np.isnan(examples), batch_size, examples)
    rate = examples / np.where(step_s > 0, step_s, np.nan)
    table = {"step_s": step_s, "examples_per_s": rate, "loss": _numbers(steps["loss"])}
    told = {name: values for name, values in table.items() if not np.isnan(values).all()}
    return _thin(_numbers(steps["end_s"]), told, _step_ends(steps), points)


def _numbers(series: pl.Series) -> Array:
    """A column as floats, NaN where it is null; by numpy, since polars wakes its threads."""
    import numpy as np

    found: Array = np.asarray(series.to_numpy(), dtype=np.float64)
    return found


def _step_ends(steps: pl.DataFrame) -> Array:
    """The first step's start and the end of every step, in order; nothing without steps."""
    import numpy as np

    if steps.is_empty():
        return np.empty(0)
    ends, starts = _numbers(steps["end_s"]), _numbers(steps["start_s"])
    marks: Array = np.concatenate([[starts.min()], np.sort(ends)])
    return marks


def _thin(times: Array, table: Mapping[str, Array], marks: Array, points: int) -> ThinSeries:
    import numpy as np

    values: Array = np.stack(list(table.values())).T
    if (np.diff(times) < 0).any():
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
    missing = np.isnan(values)
    # Most tables have no hole, and then everything is quicker.
    whole = not missing.any()
    seldom = missing.mean(axis=0) > SELDOM
    readings = len(times)
    spans = _spans(values, times, marks, whole=whole)
    low = mean = high = values
    if readings > points:
        starts = _stretches(times, points)
        rows: Array = np.diff(np.append(starts, readings)).astype(np.float64)
        low = (np.minimum if whole else np.fmin).reduceat(values, starts, axis=0)
        high = (np.maximum if whole else np.fmax).reduceat(values, starts, axis=0)
        if whole:
            mean = np.add.reduceat(values, starts, axis=0) / rows[:, None]
        else:
            count = np.add.reduceat(~missing, starts, axis=0)
            total = np.add.reduceat(np.nan_to_num(values), starts, axis=0)
            mean = total / np.where(count, count, np.nan)
        times = np.add.reduceat(times, starts) / rows
    times, (low, mean, high) = _with_gaps(times, (low, mean, high))
    return ThinSeries(
        times_s=times,
        iterations=_iterations(times, marks),
        readings=readings,
        columns={
            name: ThinColumn(
                low=low[:, at],
                mean=mean[:, at],
                high=high[:, at],
                seldom=bool(seldom[at]),
                span=spans[at],
            )
            for at, name in enumerate(table)
        },
    )


def _spans(
    values: Array, times: Array, marks: Array, *, whole: bool
) -> list[tuple[float, float, float] | None]:
    """Lowest, mean and highest of each column over training; None of one without a reading."""
    import numpy as np

    if len(marks) > 1:
        first = int(np.searchsorted(times, marks[0], side="left"))
        beyond = int(np.searchsorted(times, marks[-1], side="right"))
        values = values[first:beyond]
    columns = values.shape[1]
    if not len(values):
        return [None] * columns
    if whole:
        count: Any = np.full(columns, len(values))
        low, high, mean = values.min(axis=0), values.max(axis=0), values.mean(axis=0)
    else:
        count = (~np.isnan(values)).sum(axis=0)
        low, high = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
        mean = np.nansum(values, axis=0) / np.where(count, count, 1)
    return [
        (float(low[at]), float(mean[at]), float(high[at])) if count[at] else None
        for at in range(columns)
    ]


def _stretches(times: Array, points: int) -> Any:
    """Where each stretch of equal time begins; stretches without a reading are left out."""
    import numpy as np

    width = (times[-1] - times[0]) / points or 1.0
    number = np.minimum((times - times[0]) // width, points - 1)
    return np.flatnonzero(np.diff(number, prepend=-1.0))


def _with_gaps(times: Array, tables: Sequence[Array]) -> tuple[Array, list[Array]]:
    """A row without values into every long stretch without readings."""
    import numpy as np

    between = np.diff(times)
    if not len(between) or not (typical := float(np.median(between))) > 0:
        return times, list(tables)
    after: Any = np.flatnonzero(between > GAP_WIDTHS * typical) + 1
    if len(after) > len(times) // 2:
        return times, list(tables)
    middles = (times[after - 1] + times[after]) / 2
    return np.insert(times, after, middles), [np.insert(t, after, np.nan, 0) for t in tables]


def _iterations(times: Array, marks: Array) -> Array:
    """Steps finished at each time, with the share of the one under way; NaN outside training."""
    import numpy as np

    if len(marks) < 2:
        return np.full(len(times), np.nan)
    counts: Array = np.arange(len(marks), dtype=np.float64)
    finished: Array = np.asarray(np.interp(times, marks, counts), dtype=np.float64)
    outside = (times < marks[0]) | (times > marks[-1])
    finished[outside] = np.nan
    return finished
