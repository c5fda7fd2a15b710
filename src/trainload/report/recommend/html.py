"""One self-contained page of a recommendation: the answer, choices, a plot of them, reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainload.report.markup import escape, render_details, render_table
from trainload.report.page import THEME, render_controls, render_page
from trainload.report.recommend.wording import (
    NUMBERS,
    RANGES,
    TITLES,
    batch_words,
    choice_cells,
    doubt_words,
    render_answer,
    render_head,
)
from trainload.report.wording import render_sentence

if TYPE_CHECKING:
    from trainload.predict.types import Ranged
    from trainload.recommend.types import Choice
    from trainload.report.recommend.wording import RecommendedLike

MOST_POINTS = 60


def render_recommendation_html(done: RecommendedLike) -> str:
    """The page as text; MissingPart where plotly is not installed."""
    kind = "good" if done.found.choices else "bad"
    doubt = done.found.doubt
    if doubt is not None and not doubt.decided:
        kind = "close"
    verdict = (
        f'<section class="verdict {kind}"><h2>{escape(_short(done))}</h2>'
        f"<p>{escape(render_sentence(render_answer(done)))}</p></section>"
    )
    return render_page(
        title=f"{done.title}: {_short(done)}",
        skip="Skip to the answer",
        top=f'<header class="top"><h1>{escape(render_head(done))}</h1></header>'
        + render_controls("How the page looks", (THEME,)),
        sections=[verdict, _why(done), _plot(done), _choices(done), _rejected(done), _notes(done)],
        footer="Made by trainload. Predictions: the step was traced on tensors without numbers; "
        f"nothing was run. {escape(RANGES)}.",
        data=_points(done),
        styles=("report.css", "memory.css"),
        scripts=("look.js", "recommend.js"),
    )


def _short(done: RecommendedLike) -> str:
    winner = done.found.winner
    return "Nothing keeps to the demands" if winner is None else f"Take {winner.name}"


def _list(title: str, texts: Sequence[str]) -> str:
    if not texts:
        return ""
    # A sentence may begin with the name of a device, which keeps its small letter.
    items = "".join(f"<li>{escape(text)}.</li>" for text in texts)
    return f"<h3>{escape(title)}</h3><ul>{items}</ul>"


def _why(done: RecommendedLike) -> str:
    doubt = doubt_words(done)
    said = f'<p class="largest">{escape(render_sentence(doubt))}</p>' if doubt else ""
    near = [f"{one.name}: {'; '.join(one.missed_by)}" for one in done.found.nearest]
    body = (
        said
        + _list("Why", done.found.why)
        + _list("What would change it", done.found.changes)
        + _list("What comes nearest", near)
    )
    return f"<section>{body}</section>" if body else ""


def _plot(done: RecommendedLike) -> str:
    if len(_drawn(done)) < 2:
        return ""
    label = f"Each choice by its time and its {_axis(done)}"
    return (
        f"<section><figure><h3>Time against {_axis(done)}</h3>"
        f'<div class="canvas curve" id="front" role="img" aria-label="{label}"></div>'
        '<p class="quiet">Both axes are logarithmic; bars are ranges; filled choices are beaten by '
        "no other one in time, money and energy.</p></figure></section>"
    )


def _choices(done: RecommendedLike) -> str:
    if not done.found.choices:
        return ""
    table = render_table(
        (*TITLES[:-1], "front"),
        [choice_cells(one) for one in done.found.choices],
        label="Choices",
        numbers=NUMBERS,
    )
    return f"<section><h3>Choices, best first</h3>{table}</section>"


def _rejected(done: RecommendedLike) -> str:
    rows = [(one.name, one.reason) for one in done.found.rejected]
    rows += list(done.unknown)
    if not rows:
        return ""
    table = render_table(("candidate", "why it is no choice"), rows, label="Rejected candidates")
    return f"<section>{render_details(f'Rejected: {len(rows)}', table)}</section>"


def _notes(done: RecommendedLike) -> str:
    items = "".join(f"<li>{escape(render_sentence(note))}</li>" for note in done.notes)
    if not items:
        return ""
    return f'<section><h3>Taken for granted</h3><ul class="notes quiet">{items}</ul></section>'


def _axis(done: RecommendedLike) -> str:
    """Money where enough choices have it, else energy."""
    priced = sum(one.plan.usd is not None for one in done.found.choices)
    return "money" if priced >= 2 else "energy"


def _drawn(done: RecommendedLike) -> list[tuple[Choice, Ranged]]:
    axis = _axis(done)
    pairs = [
        (one, one.plan.usd if axis == "money" else one.plan.energy_kwh)
        for one in done.found.choices
    ]
    return [(one, figure) for one, figure in pairs if figure is not None and figure.low > 0][
        :MOST_POINTS
    ]


def _is_named(at: int, drawn: Sequence[tuple[Choice, Ranged]]) -> bool:
    """Whether nothing drawn is both faster and lower: names of others would cover each other."""
    mine, figure = drawn[at]
    return not any(
        other is not mine
        and other.plan.hours.value <= mine.plan.hours.value
        and level.value <= figure.value
        for other, level in drawn
    )


def _points(done: RecommendedLike) -> dict[str, Any]:
    """What the script draws."""
    drawn = _drawn(done)
    winner = done.found.winner
    return {
        "x": [[one.plan.hours.value, one.plan.hours.low, one.plan.hours.high] for one, _ in drawn],
        "y": [[figure.value, figure.low, figure.high] for _, figure in drawn],
        "names": [one.plan.name for one, _ in drawn],
        "words": [f"{one.plan.precision}, batch {batch_words(one.plan)}" for one, _ in drawn],
        "front": [one.on_front for one, _ in drawn],
        "named": [_is_named(at, drawn) for at in range(len(drawn))],
        "first": [one.plan is winner for one, _ in drawn],
        "unit": "USD" if _axis(done) == "money" else "kWh",
        "deadline_h": done.found.demand.deadline_h,
        "budget": done.found.demand.budget_usd if _axis(done) == "money" else None,
    }
