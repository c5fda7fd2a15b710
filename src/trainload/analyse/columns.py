"""Metered columns in figures: lowest, highest and mean of states, amounts of counters.

All columns are reduced in one pass over the frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from trainload.record import SAMPLE_HEAD
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
    """What a counter grew by between the first and the last reading of some span."""

    column: str
    unit: str | None
    count: int
    amount: float | None = None
    """None with under two readings, or where the counter was reset in between."""
    between_s: float | None = None
    """Seconds between the two readings."""

    def to_json(self) -> dict[str, Any]:
        """A JSON-able copy."""
        return asdict(self)


def metered_quantities(meters: Iterable[Any]) -> dict[str, Mapping[str, Any]]:
    """Quantities by column, as a run's manifest describes its meters."""
    found: dict[str, Mapping[str, Any]] = {}
    for meter in meters:
        quantities = meter.get("quantities") if isinstance(meter, Mapping) else None
        for quantity in quantities if isinstance(quantities, list | tuple) else ():
            if isinstance(quantity, Mapping) and isinstance(quantity.get("column"), str):
                found[quantity["column"]] = quantity
    return found


def metered_columns(samples: pl.DataFrame) -> list[str]:
    """The columns of a samples table that meters filled."""
    return [column for column in samples.columns if column not in SAMPLE_HEAD]


def is_counter(column: str, quantities: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a column only grows: as its meter says, else by its unit."""
    if column in quantities:
        return quantities[column].get("cumulative") is True
    return unit_of(column) in _COUNTER_UNITS


def summarise_columns(
    samples: pl.DataFrame, counters: Sequence[str]
) -> tuple[dict[str, ColumnSummary], dict[str, CounterSummary]]:
    """Every metered column of `samples`, states and counters apart; nulls are left out."""
    import polars as pl

    columns = metered_columns(samples)
    if not columns:
        return {}, {}
    expressions = []
    for at, name in enumerate(columns):
        values = pl.col(name).cast(pl.Float64).fill_nan(None)
        expressions.append(values.count().alias(f"{at} count"))
        if name in counters:
            known = values.is_not_null()
            for edge, pick in (("first", pl.Expr.first), ("last", pl.Expr.last)):
                expressions.append(pick(values.drop_nulls()).alias(f"{at} {edge}"))
                expressions.append(pick(pl.col("t_s").filter(known)).alias(f"{at} {edge}_s"))
        else:
            expressions += [
                values.min().alias(f"{at} min"),
                values.max().alias(f"{at} max"),
                values.mean().alias(f"{at} mean"),
                (values.drop_nulls().diff() != 0).sum().alias(f"{at} changes"),
            ]
    row = samples.select(expressions).row(0, named=True)
    seen_s = _seen_s(samples)
    states: dict[str, ColumnSummary] = {}
    amounts: dict[str, CounterSummary] = {}
    for at, name in enumerate(columns):
        if name in counters:
            amounts[name] = _counter(name, row, at)
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


def _counter(name: str, row: Mapping[str, Any], at: int) -> CounterSummary:
    count, amount, between_s = row[f"{at} count"], None, None
    if count >= 2:
        grown = row[f"{at} last"] - row[f"{at} first"]
        between_s = row[f"{at} last_s"] - row[f"{at} first_s"]
        amount = grown if grown >= 0 else None
    return CounterSummary(
        column=name, unit=unit_of(name), count=count, amount=amount, between_s=between_s
    )
