"""One self-contained page of suggestions for this machine, and of what a trial said of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainload.report.markup import escape, render_details, render_table
from trainload.report.page import THEME, render_controls, render_page
from trainload.report.recommend.here import (
    RANGES,
    SAVES,
    TITLES,
    TRIED_TITLES,
    render_here_head,
    suggestion_rows,
    tried_rows,
    untried_rows,
)
from trainload.report.wording import render_sentence

if TYPE_CHECKING:
    from trainload.report.recommend.here import AdviceLike


def render_here_html(done: AdviceLike) -> str:
    """The page as text; MissingPart where plotly is not installed."""
    table = render_table(TITLES, suggestion_rows(done), label="Suggestions", numbers=(3,))
    notes = "".join(f"<li>{escape(render_sentence(note))}</li>" for note in done.notes)
    sections = [f"<section><h3>Suggestions</h3>{table}</section>", _tried(done)]
    if notes:
        sections.append(f'<section><h3>Notes</h3><ul class="notes quiet">{notes}</ul></section>')
    return render_page(
        title=f"{done.title}: how to set it on this machine",
        skip="Skip to the suggestions",
        top=f'<header class="top"><h1>{escape(render_here_head(done))}</h1></header>'
        + render_controls("How the page looks", (THEME,)),
        sections=[one for one in sections if one],
        footer=f"Made by trainload. {escape(render_sentence(SAVES))}",
        data={},
        styles=("report.css", "memory.css"),
        scripts=("look.js",),
    )


def _tried(done: AdviceLike) -> str:
    rows = tried_rows(done)
    if not rows:
        return ""
    table = render_table(TRIED_TITLES, rows, label="Measured here", numbers=(3, 4, 5))
    left = untried_rows(done)
    rest = render_table(("what", "why it was not tried"), left, label="Not tried")
    more = render_details(f"Not tried: {len(left)}", rest) if left else ""
    said = escape(render_sentence(RANGES))
    return f'<section><h3>Measured here</h3>{table}<p class="quiet">{said}</p>{more}</section>'
