"""A reproduction on the terminal; draws, computes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from trainload.report.reproduce.wording import (
    CLAIM_TITLES,
    ReproductionLike,
    claim_row,
    observer_rows,
    render_cell,
    render_counts,
    render_title,
)

_STYLES = {"confirms": "green", "contradicts": "red", "cannot tell": "dim"}


def render_reproduction(found: ReproductionLike) -> Group:
    """Published beside measured, then every claim with its verdict."""
    parts: list[Table | Text] = [
        Text(f"{render_title(found)}: {found.file.source}\n", style="bold"),
        *(
            _table(
                f"{one.title} ({one.source})", one.columns, (map(render_cell, r) for r in one.rows)
            )
            for one in found.tables
        ),
    ]
    claims = _table("Claims", CLAIM_TITLES, ())
    for one in found.judged:
        verdict, *rest = claim_row(one)
        claims.add_row(Text(verdict, style=_STYLES[verdict]), *map(Text, rest))
    parts.append(claims)
    if found.observed is not None:
        title = "The monitor inside the source's training loop"
        parts.append(_table(title, ("", "figure"), observer_rows(found.observed)))
    parts.append(Text(f"\n{render_counts(found.judged)}", style="bold"))
    parts.append(
        Text("[low, high]: 95 %; ~: too few repetitions for an interval; –: not measured", "dim")
    )
    return Group(*parts)


def _table(title: str, columns: Sequence[str], rows: Iterable[Iterable[str]]) -> Table:
    table = Table(title=escape(title), title_justify="left", title_style="bold")
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
