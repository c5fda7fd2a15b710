"""The processes of one run beside each other, on the terminal."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from trainload.analyse.compare.ranks import RankComparison, RankRow
from trainload.report.compare.wording import interval, signed, verdict_word
from trainload.report.wording import clean_text
from trainload.units import MISSING, render_percent, render_seconds

TITLES = (
    "rank", "place", "step", "ends late by", "last in", "own work", "waits", "behind the others",
    "verdict",
)  # fmt: skip


def render_ranks(found: RankComparison) -> Group:
    """The answer, then a row for each process."""
    table = Table()
    for title in TITLES:
        table.add_column(title, justify="left" if title in ("place", "verdict") else "right")
    for row in found.rows:
        style = "red" if row.rank == found.slow else ""
        table.add_row(*(Text(cell, style=style) for cell in _cells(row)))
    notes = [Text(note) for note in found.notes]
    return Group(Text(answer(found), style="bold"), table, *notes)


def answer(found: RankComparison) -> str:
    """Skew and the slow process in one sentence."""
    skew = f"{render_seconds(found.skew_s)} ({render_percent(found.skew_fraction)} of a step)"
    head = f"{clean_text(found.run)}: {len(found.rows)} ranks, steps end {skew} apart"
    if found.slow is None:
        return f"{head}; no rank is surely slower than the others"
    row = next(row for row in found.rows if row.rank == found.slow)
    who = f"rank {row.rank} ({clean_text(row.place)}, {signed('step_s', row.behind_s)})"
    waited = "" if found.waited_s is None else f", {render_seconds(found.waited_s)} a step"
    return f"{head}; the others wait for {who}{waited}"


def _cells(row: RankRow) -> tuple[str, ...]:
    behind = MISSING
    if row.behind_s is not None:
        bounds = interval("step_s", row.low_s, row.high_s)
        behind = f"{signed('step_s', row.behind_s)} ({bounds})"
    return (
        str(row.rank),
        clean_text(row.place),
        render_seconds(row.step_s),
        render_seconds(row.late_s),
        render_percent(row.last_fraction, 0),
        render_seconds(row.own_s),
        render_seconds(row.wait_s),
        behind,
        verdict_word(row.verdict),
    )
