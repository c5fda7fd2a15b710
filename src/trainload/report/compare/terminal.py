"""A comparison on the terminal: the answer first, then what differs; computes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from trainload.analyse.compare import Comparison
from trainload.report.compare import wording

_STYLES = {"slower": "red", "faster": "green"}


def render_comparison(found: Comparison, *, every: bool = False, layers: int = 15) -> Group:
    """All tables of a comparison; metrics that do not differ only where `every` is asked for."""
    parts: list[RenderableType] = [
        Text(wording.sides_line(found)),
        Text(wording.headline(found), style=f"bold {_STYLES.get(found.metrics[0].verdict, '')}"),
        Text(wording.counts_line(found)),
        Text(""),
        _table("Metrics", wording.METRIC_TITLES, wording.metric_rows(found, every=every), 1, 6),
    ]
    rows = wording.layer_rows(found, layers)
    if rows:
        parts.append(_table("Where the difference lies", wording.LAYER_TITLES, rows, 2, 5))
        parts.append(Text(wording.shared_line(found)))
    for title, facts in wording.fact_tables(found):
        shown = _table(title.capitalize(), wording.FACT_TITLES, facts, 9, 9)
        parts.append(shown if facts else Text(title.capitalize()))
    parts += [Text(note) for note in (*found.notes, wording.rule_line(found))]
    return Group(*parts)


def _table(
    title: str, titles: Sequence[str], rows: Sequence[Sequence[str]], first: int, last: int
) -> Table:
    """A table whose columns from `first` up to `last` are numbers."""
    table = Table(title=escape(title), title_justify="left", title_style="bold")
    for at, name in enumerate(titles):
        table.add_column(name, justify="right" if first <= at <= last else "left", overflow="fold")
    for row in rows:
        style = next((_STYLES[cell] for cell in row if cell in _STYLES), "")
        table.add_row(*(Text(cell, style=style) for cell in row))
    return table
