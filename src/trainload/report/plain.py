"""Any rich renderable as lines of plain text: `name: value`, no boxes, bars or colours.

For screen readers and for terminals that can do little; what is shown is decided elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_DRAWN = re.compile(r"[\u2500-\u259f]+")
"""Strokes of boxes and trees, blocks of bars."""


def render_plain(rendered: Any, console: Console) -> Iterator[str]:
    """The lines of a renderable; a row of a table is one line with its titles in it.

    One that has `plain_lines` knows better itself.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    if hasattr(rendered, "plain_lines"):
        yield from rendered.plain_lines()
    elif isinstance(rendered, Group):
        for part in rendered.renderables:
            yield from render_plain(part, console)
    elif isinstance(rendered, Table):
        yield from _table_lines(rendered)
    elif isinstance(rendered, str | Text):
        yield from (_plain(line) for line in str(rendered).split("\n"))
    elif hasattr(rendered, "__rich_console__"):
        options = console.options.update(width=1000)
        for part in rendered.__rich_console__(console, options):
            yield from render_plain(part, console)
    else:
        raise TypeError(f"{type(rendered).__name__} has no plain form")


def _table_lines(table: Table) -> Iterator[str]:
    titles = [_plain(str(column.header)) for column in table.columns]
    columns = [[_plain(str(cell)) for cell in column.cells] for column in table.columns]
    for row in zip(*columns, strict=True):
        yield _row_line(titles, row)


def _row_line(titles: Sequence[str], row: Sequence[str]) -> str:
    """`first cell: title value, title value`; empty cells are left out."""
    told = [
        f"{title} {cell}" if title else cell
        for title, cell in zip(titles[1:], row[1:], strict=True)
        if cell
    ]
    return f"{row[0]}: {', '.join(told)}" if told else row[0]


def _plain(text: str) -> str:
    return " ".join(_DRAWN.sub(" ", text).split())
