"""The scorecard of estimates on a terminal, as rich renderables; the caller prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainload.report.wording import clean_text
from trainload.units import render_bytes

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType
    from rich.table import Table

    from trainload.analyse.scorecard import Scorecard

QUANTITY_TITLES = {
    "allocated": "allocated",
    "reserved": "reserved",
    "device": "whole device",
    "ram": "RAM growth",
}
_ALL = "all"
_GOOD, _FAIR = 0.04, 0.12
_SAID = ("fits", "too close to call", "does not fit", "not known")


def render_scorecard(card: Scorecard) -> RenderableType:
    """Errors by device, model kind and quantity, the worst rows, and the verdicts."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [
        Text("error of estimates: estimate / truth − 1", "bold"),
        _groups(card),
        Text(),
        Text("furthest off", "bold"),
        _worst(card.worst),
    ]
    if card.verdicts.height:
        parts += [Text(), Text("what was said, and what happened", "bold"), _verdicts(card)]
        parts += [Text(f"said fits, ran out: {card.wrong_fits.height}", _alarm(card))]
        parts += [
            Text(f"  {clean_text(row['name'])} at {render_bytes(row['capacity_bytes'])}", "red")
            for row in card.wrong_fits.iter_rows(named=True)
        ]
    return Group(*parts)


def render_error(error: float | None) -> str:
    """In percent, with its sign."""
    return "–" if error is None else f"{error * 100:+.1f} %"


def _alarm(card: Scorecard) -> str:
    return "red bold" if card.wrong_fits.height else "green"


def _groups(card: Scorecard) -> Table:
    table = plain_table(("device", "model kind", "quantity"), ("count", "median", "worst", "bias"))
    for row in card.totals.iter_rows(named=True):
        _add(table, row, _ALL, "bold")
    table.add_section()
    for row in card.groups.iter_rows(named=True):
        _add(table, row, row["model_kind"], "")
    return table


def _add(table: Table, row: dict[str, Any], kind: str, style: str) -> None:
    median = row["median_error"]
    table.add_row(
        clean_text(row["device"]),
        clean_text(kind),
        QUANTITY_TITLES[row["quantity"]],
        str(row["count"]),
        f"{median * 100:.1f} %",
        coloured_error(row["worst_error"]),
        render_error(row["bias_error"]),
        style=style,
    )


def _worst(rows: pl.DataFrame) -> Table:
    table = plain_table(("name", "device", "quantity"), ("estimate", "truth", "error"))
    for row in rows.iter_rows(named=True):
        table.add_row(
            clean_text(row["name"]),
            clean_text(row["device"]),
            QUANTITY_TITLES[row["quantity"]],
            render_bytes(row["estimate_bytes"]),
            render_bytes(row["truth_bytes"]),
            coloured_error(row["error"]),
        )
    return table


def _verdicts(card: Scorecard) -> Table:
    table = plain_table(("said",), ("went through", "ran out"))
    rows = {row["verdict"]: row for row in card.verdicts.iter_rows(named=True)}
    for said in (*(word for word in _SAID if word in rows), *(set(rows) - set(_SAID))):
        row = rows[said]
        table.add_row(clean_text(said), str(row["fits"]), str(row["out_of_memory"]))
    return table


def coloured_error(error: float | None) -> Any:
    """The error by its size: green, yellow, red."""
    from rich.text import Text

    size = abs(error or 0.0)
    style = "green" if size <= _GOOD else "yellow" if size <= _FAIR else "red"
    return Text(render_error(error), style)


def plain_table(left: tuple[str, ...], right: tuple[str, ...]) -> Table:
    """An empty table; texts at the left, figures at the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="dim")
    for title in left:
        table.add_column(title, overflow="fold")
    for title in right:
        table.add_column(title, justify="right", no_wrap=True)
    return table
