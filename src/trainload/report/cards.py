"""Small pieces of HTML for notebooks: a heading, one table, a few lines; no script, all escaped.

Styled in place, since a notebook has no style of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainload.report.markup import escape

if TYPE_CHECKING:
    from trainload.analyse.compare import Comparison
    from trainload.report.memory.ranking import DeviceRow
    from trainload.report.predict.terminal import Predicted

CELL = 'style="text-align:left;padding:0 1em 0 0"'


def render_table_card(
    head: str, titles: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()
) -> str:
    """A table below its heading, and notes below that."""
    top = "".join(f"<th {CELL}>{escape(title)}</th>" for title in titles)
    body = "".join(
        "<tr>" + "".join(f"<td {CELL}>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    table = f"<table><tr>{top}</tr>{body}</table>" if rows else ""
    told = "".join(f"<li>{escape(note)}</li>" for note in notes if note)
    listed = f"<ul>{told}</ul>" if told else ""
    return f"<div><b>{escape(head)}</b>{table}{listed}</div>"


def render_comparison_card(found: Comparison) -> str:
    """The answer, the metrics that differ, and what else is worth knowing."""
    from trainload.report.compare import wording

    notes = [wording.sides_line(found), wording.counts_line(found), *found.notes]
    rows = wording.metric_rows(found)
    return render_table_card(wording.headline(found), wording.METRIC_TITLES, rows, notes)


def render_predictions_card(found: Sequence[Predicted]) -> str:
    """Each device in a row, with what is missing of it below."""
    from trainload.report.predict.terminal import TITLES, render_cells, render_title

    notes = [f"{one.device.name}: {one.missing}" for one in found if one.missing]
    rows = [render_cells(one) for one in found]
    notes.append("ranges hold the truth in 19 of 20 cases")
    return render_table_card(render_title(found[0], with_device=False), TITLES, rows, notes)


def render_ranking_card(head: str, rows: Sequence[DeviceRow]) -> str:
    """Each device in a row, best first."""
    from trainload.report.memory.ranking import TITLES, render_cells

    missing = dict.fromkeys(row.missing for row in rows if row.missing)
    notes = [f"no step was traced: {text}" for text in missing]
    return render_table_card(head, TITLES, [render_cells(row) for row in rows], notes)
