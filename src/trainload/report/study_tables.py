"""A study's tables on the terminal; draws frames, computes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from trainload.report.wording import clean_text
from trainload.units import MISSING

if TYPE_CHECKING:
    import polars as pl

_PERCENT = "ratio - 1"
_TIMES = 10.0
"""Ratio from which `×224` says more than a percentage."""


def render_study(
    frames: dict[str, pl.DataFrame], *, metric: str, rule: str, most: int = 40
) -> Group:
    """Cells, effects, interactions and the best of one metric; at most so many rows a table."""
    cells = frames["cells"].filter(frames["cells"]["metric"] == metric)
    parts: list[Any] = [
        _table(
            f"Cells: {metric}",
            cells,
            ("cell", "n", "mean", "deviation", "median", "low", "high", "min", "max", "note"),
            most,
        ),
        _unstable(cells),
        _table(
            f"Against the base: {metric}",
            _percent(frames["effects"]),
            ("factor", "level", "base", "pairs", "effect", "low", "high", "verdict"),
            most,
        ),
    ]
    if "interactions" in frames:
        parts.append(
            _table(
                f"Main effects and interactions: {metric}",
                frames["interactions"],
                ("term", "degrees", "share_fraction", "f", "p_value", "verdict"),
                most,
            )
        )
    parts += [
        _table(f"Best: {rule}", frames["best"], ("cell", "n", "median", "standing"), most),
        _table("Missing cells", frames["missing"], ("cell", "reason"), most),
    ]
    return Group(*(part for part in parts if part is not None))


def _table(title: str, frame: pl.DataFrame, columns: Sequence[str], most: int) -> Table | None:
    if frame.is_empty():
        return None
    table = Table(title=escape(clean_text(title)), title_justify="left", title_style="bold")
    for name in columns:
        number = frame[name].dtype.is_numeric() or name in ("effect", "low", "high")
        table.add_column(name, justify="right" if number else "left")
    for row in frame.head(most).select(columns).iter_rows():
        table.add_row(*(Text(_text(value)) for value in row))
    if frame.height > most:
        table.caption = f"{most} of {frame.height} rows; all of them with --csv or --json"
    return table


def _text(value: Any) -> str:
    if value is None:
        return MISSING
    return f"{value:.4g}" if isinstance(value, float) else clean_text(value)


def _percent(effects: pl.DataFrame) -> pl.DataFrame:
    """Ratios as percentages, large ones as multiples, differences as they are."""
    rows = effects.to_dicts()
    for row in rows:
        for name in ("effect", "low", "high"):
            value = row[name]
            ratio = value is not None and row["scale"] == _PERCENT
            row[name] = _change(value) if ratio else _text(value)
    return type(effects)(rows, schema={**dict.fromkeys(effects.columns)}, infer_schema_length=None)


def _change(value: float) -> str:
    return f"×{value + 1:,.0f}" if value + 1 >= _TIMES else f"{value:+.1%}"


def _unstable(cells: pl.DataFrame) -> Text | None:
    named = cells.drop_nulls("unstable").select("cell", "unstable").rows()
    if not named:
        return None
    lines = (clean_text(f"unstable: {cell}: {reason}") for cell, reason in named)
    return Text("\n".join(lines) + "\n")
