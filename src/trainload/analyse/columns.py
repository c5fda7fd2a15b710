"""Metered columns in figures: lowest, highest and mean of states, amounts of counters.

All columns are reduced in one pass over the frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from trainload.analyse.series import Span, readings_over
from trainload.record import SAMPLE_HEAD, RecordedMeter, RecordedQuantity
from trainload.units import unit_of

if TYPE_CHECKING:
    import polars as pl

MIN_CHANGES = 5
"""Changes of a value needed before the time between them says anything."""

_COUNTER_UNITS = ("J", "s")
"""Units that only counters carry, for a column that no meter describes."""


@dataclass(frozen=True, kw_only=True)
class ColumnSummary:
    """A state, such as a load or a temperature, over some span; figures in the column's unit."""

    column: str
    unit: str | None
    count: int
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    """Over readings, each counting once."""
    observed_refresh_s: float | None = None
    """Mean time between changes of the value; None where it changed under MIN_CHANGES times.

    Never below the sampler's own period: a source may refresh faster than it was read.
    """

    def to_json(self) -> dict[str, Any]:
        """A JSON-able copy."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class CounterSummary:
    """What a counter grew by over some span, interpolated at the span's edges."""

    column: str
    unit: str | None
    count: int
    """Readings inside the span."""
    amount: float | None = None
    """None without a reading inside or a second one beside it, or where the counter fell."""
    between_s: float | None = None
    """Seconds that `amount` covers: less than the span where no reading lies beyond an edge."""

    def to_json(self) -> dict[str, Any]:
        """A JSON-able copy."""
        return asdict(self)


def metered_quantities(meters: Iterable[RecordedMeter]) -> dict[str, RecordedQuantity]:
    """Quantities by column, as a run's manifest describes its meters."""
    return {quantity.column: quantity for meter in meters for quantity in meter.quantities}


def metered_columns(samples: pl.DataFrame) -> list[str]:
    """The columns of a samples table that meters filled."""
    return [column for column in samples.columns if column not in SAMPLE_HEAD]


def is_counter(column: str, quantities: Mapping[str, RecordedQuantity]) -> bool:
    """Whether a column only grows: as its meter says, else by its unit."""
    if column in quantities:
        return quantities[column].cumulative is True
    return unit_of(column) in _COUNTER_UNITS


def summarise_columns(
    samples: pl.DataFrame, counters: Sequence[str], span: Span | None = None
) -> tuple[dict[str, ColumnSummary], dict[str, CounterSummary]]:
    """Every metered column over a span, states and counters apart; nulls are left out.

    `samples` holds the readings around the span too: counters are interpolated at its edges.
    Without a span all samples count.
    """
    import polars as pl

    columns = metered_columns(samples)
    if not columns:
        return {}, {}
    inside = samples
    if span is not None:
        inside = samples.filter(samples["t_s"].is_between(span.start_s, span.end_s))
    expressions = []
    for at, name in enumerate(columns):
        values = pl.col(name).cast(pl.Float64).fill_nan(None)
        expressions.append(values.count().alias(f"{at} count"))
        if name not in counters:
            expressions += [
                values.min().alias(f"{at} min"),
                values.max().alias(f"{at} max"),
                values.mean().alias(f"{at} mean"),
                (values.drop_nulls().diff() != 0).sum().alias(f"{at} changes"),
            ]
    row = inside.select(expressions).row(0, named=True)
    seen_s = _seen_s(inside)
    states: dict[str, ColumnSummary] = {}
    amounts: dict[str, CounterSummary] = {}
    for at, name in enumerate(columns):
        if name in counters:
            amounts[name] = _counter(samples, name, row[f"{at} count"], span)
        else:
            states[name] = ColumnSummary(
                column=name,
                unit=unit_of(name),
                count=row[f"{at} count"],
                min=row[f"{at} min"],
                max=row[f"{at} max"],
                mean=row[f"{at} mean"],
                observed_refresh_s=(
                    seen_s / row[f"{at} changes"] if row[f"{at} changes"] >= MIN_CHANGES else None
                ),
            )
    return states, amounts


def _seen_s(samples: pl.DataFrame) -> float:
    """Time covered by samples: stretches without any, such as pauses, count as one period."""
    between = samples["t_s"].diff().drop_nulls()
    if between.is_empty():
        return 0.0
    period_s = between.median()
    assert isinstance(period_s, float)
    return float(between.clip(upper_bound=2 * period_s).sum())


def _counter(samples: pl.DataFrame, name: str, count: int, span: Span | None) -> CounterSummary:
    amount, between_s = None, None
    readings = readings_over(samples["t_s"], samples[name], span)
    if readings.height >= 2:
        values, times_s = readings["value"], readings["t_s"]
        between_s = times_s[-1] - times_s[0]
        fell = bool((values.diff() < 0).any())
        amount = None if fell else values[-1] - values[0]
    return CounterSummary(
        column=name, unit=unit_of(name), count=count, amount=amount, between_s=between_s
    )
