"""Energy by source: from its own joule counter first, else from its power by trapezoid.

Sources overlap (a board's input rail holds its GPU's), so they are never added up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from trainload.analyse.columns import CounterSummary
from trainload.analyse.series import Span, readings_over
from trainload.record import RecordedQuantity

if TYPE_CHECKING:
    import polars as pl

_ENERGY, _POWER = "_energy_j", "_power_w"


@dataclass(frozen=True, kw_only=True)
class EnergySummary:
    """Joules one source drew during some span, interpolated at the span's edges."""

    source: str
    """Column name without quantity and unit, such as `gpu0` or `rapl_package_0`."""
    column: str
    """The column the figure comes from."""
    provenance: Literal["measured", "derived"]
    energy_j: float | None
    """None without a reading inside the span or a second one beside it."""
    between_s: float | None
    """Seconds that `energy_j` covers: less than the span where no reading lies beyond an edge."""

    @property
    def mean_power_w(self) -> float | None:
        """Energy over its time; None where either is missing."""
        if self.energy_j is None or not self.between_s:
            return None
        return self.energy_j / self.between_s

    def to_json(self) -> dict[str, Any]:
        """A JSON-able copy."""
        return {**asdict(self), "mean_power_w": self.mean_power_w}


def trapezoid_j(
    times_s: pl.Series, power_w: pl.Series, span: Span | None = None
) -> tuple[float | None, float | None]:
    """Energy under a power curve in joules, and the seconds it covers; None with too few readings.

    Between two readings, however far apart, power is taken to change evenly, and so it is at
    the edges of a span. Without a span all readings count.
    """
    import polars as pl

    known = readings_over(times_s, power_w, span)
    if known.height < 2:
        return None, None
    middle = (pl.col("value") + pl.col("value").shift()) / 2
    joules = known.select((middle * pl.col("t_s").diff()).sum()).item()
    return float(joules), float(known["t_s"][-1] - known["t_s"][0])


def summarise_energy(
    samples: pl.DataFrame,
    counters: Mapping[str, CounterSummary],
    quantities: Mapping[str, RecordedQuantity],
    span: Span | None = None,
) -> tuple[EnergySummary, ...]:
    """One entry for each source that has a joule counter or a power column, over a span.

    `samples` holds the readings around the span too; `counters` cover the same span.
    """
    found: dict[str, EnergySummary] = {}
    for column, counter in counters.items():
        if column.endswith(_ENERGY) and counter.amount is not None:
            source = column.removesuffix(_ENERGY)
            quantity = quantities.get(column)
            derived = quantity is not None and quantity.provenance == "derived"
            found[source] = EnergySummary(
                source=source,
                column=column,
                provenance="derived" if derived else "measured",
                energy_j=counter.amount,
                between_s=counter.between_s,
            )
    for column in samples.columns:
        source = column.removesuffix(_POWER)
        if not column.endswith(_POWER) or source in found:
            continue
        energy_j, between_s = trapezoid_j(samples["t_s"], samples[column], span)
        found[source] = EnergySummary(
            source=source,
            column=column,
            provenance="derived",
            energy_j=energy_j,
            between_s=between_s,
        )
    return tuple(found[source] for source in sorted(found))
