"""Names, figures and marks of a ranking as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainload.report.wording import clean_text, render_name
from trainload.units import MISSING, render_percent, render_value

MARKS: Mapping[str, str] = {"decided": "", "not decided": " ~", "by mean only": " °"}
LEGEND = (
    "~ not decided: repetitions cannot tell them apart; ° by mean only: single runs, or values "
    "without spread, hold no interval; ! an energy of it contradicts power × time; "
    "(…) had no rival; percent are of the next one's value"
)


def metric_name(metric: str) -> str:
    """The plain name of a metric as a title; its own where it has none."""
    name = render_name(metric)
    return name[:1].upper() + name[1:]


def render_metric(metric: str, value: float | None) -> str:
    """A figure of a metric with its unit; energies in watt-hours."""
    if value is None:
        return MISSING
    if metric == "energy_j":
        return f"{value / 3600:,.4g} Wh"
    if metric.endswith("_s") and not metric.endswith("_per_s") and value >= 60:
        return f"{value:,.0f} s"
    return render_value(metric, value)


def render_best(row: Mapping[str, Any]) -> str:
    """One contest in a few words: who, by how much, how certain."""
    standing, metric = row["standing"], row["metric"]
    if standing == "missing":
        return MISSING
    if standing == "tie":
        return f"tie at {render_metric(metric, row['value'])}"
    best = clean_text(row["best"])
    if standing == "no contest":
        return f"({best})"
    percent = render_percent(row["difference_fraction"])
    difference = render_metric(metric, row["difference"])
    doubt = " !" if row["doubtful"] else ""
    return f"{best} by {difference}, {percent}{MARKS[standing]}{doubt}"
