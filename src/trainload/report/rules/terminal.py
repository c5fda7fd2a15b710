"""Rules and a machine's figures on the terminal; draws, computes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from trainload.hardware.limits import MachineLimits
from trainload.report.rules.wording import (
    LIMIT_TITLES,
    RULE_TITLES,
    RulesLike,
    limit_rows,
    render_counts,
    render_machine,
    render_title,
    rule_row,
)
from trainload.report.wording import clean_text

STYLES = {"holds": "green", "does not hold": "red", "cannot tell": "dim", "dated": "yellow"}


def render_rules(found: RulesLike) -> Group:
    """Every rule with its prediction, figures and verdict."""
    table = _table("Rules", RULE_TITLES, map(rule_row, found.judged), styled=True)
    return Group(
        Text(f"{render_title(found)}: {found.file.source}", style="bold"),
        Text(render_machine(found.limits)),
        *_notes(found.limits),
        table,
        Text(f"\n{render_counts(found.judged)}", style="bold"),
        Text("[low, high]: 95 %; ~: too few samples for an interval; –: not measured", "dim"),
    )


def render_limits(limits: MachineLimits) -> Group:
    """What the machine reaches, figure by figure."""
    return Group(
        Text(f"what this machine reaches: {render_machine(limits)}", style="bold"),
        *_notes(limits),
        _table(None, LIMIT_TITLES, limit_rows(limits)),
        Text("spread is half the range of the samples over their median", "dim"),
    )


def _notes(limits: MachineLimits) -> list[Text]:
    return [Text(f"note: {clean_text(note)}", "yellow") for note in limits.notes]


def _table(
    title: str | None,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    styled: bool = False,
) -> Table:
    shape = box.SIMPLE_HEAD if title is None else box.HEAVY_HEAD
    table = Table(title=title, title_justify="left", title_style="bold", box=shape)
    for name in columns:
        table.add_column(name, overflow="fold")
    for first, *rest in rows:
        style = STYLES.get(first, "") if styled else ""
        table.add_row(Text(first, style), *map(Text, rest))
    return table
