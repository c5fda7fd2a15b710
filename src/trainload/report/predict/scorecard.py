"""The scorecard of predictions on a terminal, as rich renderables; the caller prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainload.report.memory.scorecard import coloured_error, plain_table, render_error
from trainload.report.wording import clean_text
from trainload.units import MISSING, render_seconds

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trainload.analyse.predicted import PredictionCard

TITLES = {"step_s": "a step", "examples_per_s": "throughput", "energy_j": "energy of a step"}
MOST_ROWS = 20
_HELD = {True: "yes", False: "no", None: MISSING}


def render_prediction_card(card: PredictionCard) -> RenderableType:
    """Errors and ranges by device, tier and quantity, then the runs, furthest off first."""
    from rich.console import Group
    from rich.text import Text

    groups = plain_table(
        ("device", "tier", "quantity"), ("count", "median", "worst", "bias", "in range")
    )
    for row in card.groups.iter_rows(named=True):
        device, tier, quantity, count, median, _, bias, held = group_cells(row)
        groups.add_row(
            device, tier, quantity, count, median, coloured_error(row["worst_error"]), bias, held
        )
    rows = plain_table(
        ("run", "device", "tier", "quantity"),
        ("predicted", "range", "measured", "error", "in range"),
    )
    for row in card.rows.head(MOST_ROWS).iter_rows(named=True):
        *left, _, held = row_cells(row)
        rows.add_row(*left, coloured_error(row["error"]), held)
    title = "runs, furthest off first"
    if card.rows.height > MOST_ROWS:
        title += f"; {MOST_ROWS} of {card.rows.height} rows"
    return Group(
        Text("error of predictions: prediction / measured − 1", "bold"),
        groups,
        Text(),
        Text(title, "bold"),
        rows,
    )


def group_cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Device, tier, quantity, count, median, worst, bias and ranges that held, as text."""
    return (
        clean_text(row["device"]),
        clean_text(row["tier"]),
        TITLES[row["quantity"]],
        str(row["count"]),
        f"{row['median_error'] * 100:.1f} %",
        render_error(row["worst_error"]),
        render_error(row["bias_error"]),
        f"{row['held']} of {row['ranged']}",
    )


def row_cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Run, device, tier, quantity, predicted, range, measured, error and whether it held."""
    quantity, low, high = row["quantity"], row["low"], row["high"]
    between = MISSING
    if low is not None and high is not None:
        between = f"{_figure(quantity, low)} to {_figure(quantity, high)}"
    return (
        clean_text(row["name"]),
        clean_text(row["device"]),
        clean_text(row["tier"]),
        TITLES[quantity],
        _figure(quantity, row["predicted"]),
        between,
        _figure(quantity, row["truth"]),
        render_error(row["error"]),
        _HELD[row["held"]],
    )


def _figure(quantity: str, value: float) -> str:
    if quantity == "step_s":
        return render_seconds(value)
    number = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{number} J" if quantity == "energy_j" else f"{number} /s"
