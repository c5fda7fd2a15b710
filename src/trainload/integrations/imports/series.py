"""Rows of readings as samples of a run: times counted from the first, columns planned once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from trainload.integrations.imports.units import ColumnPlan
from trainload.record import RecordedQuantity
from trainload.units import unit_of

_SLASHED = re.compile(r"(\d{4})[/-](\d\d)[/-](\d\d)[ T](\d\d):(\d\d):(\d\d)(\.\d{1,9})?")


def quantity(plan: ColumnPlan, source: str, *, capacity: float | None = None) -> RecordedQuantity:
    """What a column of samples is, as a record says it."""
    unit = None if plan.raw else unit_of(plan.column)
    return RecordedQuantity(
        column=plan.column,
        provenance="measured",
        source=f"{source}: {plan.source}",
        reason="its unit is not known: kept raw" if plan.raw else None,
        capacity=1.0 if unit == "fraction" else capacity,
        cumulative=unit == "J" and not plan.raw,
        unit=unit,
    )


def unique_plans(plans: Sequence[ColumnPlan]) -> list[ColumnPlan]:
    """The plans with names that no two share: a second one of a name gets a number."""
    seen: dict[str, int] = {}
    found = []
    for plan in plans:
        count = seen[plan.column] = seen.get(plan.column, 0) + 1
        name = plan.column if count == 1 else f"other{count}_{plan.column}"
        found.append(ColumnPlan(source=plan.source, column=name, factor=plan.factor, raw=plan.raw))
    return found


def wall_time_s(text: str) -> float | None:
    """A written date and time as seconds, for differences alone: its zone is not told.

    None where it is no such text.
    """
    found = _SLASHED.match(text)
    if found is None:
        return None
    try:
        year, month, day, hour, minute, second = (int(found[n]) for n in range(1, 7))
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    return moment.timestamp() + float(found[7] or 0)
