"""One page that tells of a training from the first question to the last: parts in their order.

Puts finished answers beside each other; each part names the command that gave it. Computes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainload._version import __version__
from trainload.predict.money import Lacking
from trainload.report.compare import wording
from trainload.report.many.overview import render_finding
from trainload.report.many.tables import render_cells
from trainload.report.markup import escape, render_log, render_table
from trainload.report.memory.wording import render_chance
from trainload.report.page import THEME, Choice, render_controls, render_page
from trainload.report.run.sections import render_run
from trainload.units import MISSING, render_bytes, render_seconds

if TYPE_CHECKING:
    from trainload.analyse.compare import Comparison
    from trainload.report.many.view import ManyRuns
    from trainload.report.memory.ranking import DeviceRow
    from trainload.report.predict.terminal import Predicted
    from trainload.report.run.view import RunView

_FIT_TITLES = ("device", "verdict", "needs", "offers", "left", "chance of running out")
_COST_TITLES = ("device", "training", "range", "energy", "money", "rests on")
_AXIS: Choice = ("axis", "Horizontal axis", (("time", "time"), ("iteration", "iteration")), "time")
_SMOOTHING: Choice = (
    "smoothing",
    "Smoothing",
    (("none", "none"), ("50", "w = 50"), ("100", "w = 100")),
    "none",
)


@dataclass(frozen=True, kw_only=True)
class StoryPart:
    """A question, its answer in a sentence, and what stands behind it."""

    name: str
    """Of its anchor, and in the list of parts."""
    question: str
    answer: str
    command: str
    body: str = ""
    """HTML already."""
    views: tuple[RunView, ...] = ()
    """Runs that the body shows in full, whose plots the page draws."""


def render_story(title: str, lead: str, parts: Sequence[StoryPart]) -> str:
    """The text of one HTML file; MissingPart where plotly is not installed."""
    items = "".join(
        f'<li><a href="#{part.name}">{escape(part.question)}</a> {escape(part.answer)}</li>'
        for part in parts
    )
    views = [view for part in parts for view in part.views]
    drawn = (_SMOOTHING, _AXIS) if views else ()
    return render_page(
        title=title,
        skip="Skip to the answers",
        top=f'<header class="top"><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>'
        f'<nav class="advice" aria-label="Answers"><ol>{items}</ol></nav></header>'
        + render_controls("How the page is drawn", (*drawn, THEME)),
        sections=[_section(number, part) for number, part in enumerate(parts, 1)],
        footer=f"Made by trainload {escape(__version__)}. A dash is a missing value, never zero. "
        "This file asks the network for nothing.",
        data={"full": [view.plots.data for view in views]},
        styles=("report.css", "many.css"),
        scripts=("look.js", "tables.js", "report.js"),
    )


def _section(number: int, part: StoryPart) -> str:
    return (
        f'<section id="{part.name}"><h2>{number}. {escape(part.question)}</h2>'
        f'<p class="lead">{escape(part.answer)}</p>{render_log(f"$ {part.command}")}'
        f"{part.body}</section>"
    )


def fit_table(rows: Sequence[DeviceRow]) -> str:
    """On which devices the step fits, with how much room left."""
    cells = [
        (
            row.name,
            row.verdict,
            render_bytes(row.needed_bytes),
            render_bytes(row.capacity_bytes),
            _left(row.left_bytes),
            render_chance(row.running_out),
        )
        for row in rows
    ]
    return render_table(_FIT_TITLES, cells, label="Where it fits", numbers=range(2, 6))


def _left(value_bytes: int | None) -> str:
    if value_bytes is None:
        return MISSING
    return ("−" if value_bytes < 0 else "") + render_bytes(abs(value_bytes))


def cost_table(found: Sequence[Predicted]) -> str:
    """What the whole training would take on each device."""
    rows = [_cost_row(one) for one in found]
    return render_table(_COST_TITLES, rows, label="What it would cost", numbers=range(1, 5))


def _cost_row(one: Predicted) -> tuple[str, ...]:
    time, energy, cost, step = one.training_s, one.training_energy_j, one.cost, one.step
    if time is None or step is None:
        return (one.device.title, *[MISSING] * 4, one.missing or one.verdict)
    return (
        one.device.title,
        render_seconds(time.value),
        f"{render_seconds(time.low)} … {render_seconds(time.high)}",
        MISSING if energy is None else f"{energy.value / 3.6e6:,.3g} kWh",
        MISSING if cost is None or isinstance(cost, Lacking) else f"{cost.usd:,.0f} USD",
        f"{step.tier}: {step.why}",
    )


def run_in_full(view: RunView) -> str:
    """A run with its layers and curves, as on its own page."""
    return render_run(view)


def study_tables(many: ManyRuns, found: Comparison) -> str:
    """The findings of a study, its cells, and one comparison between two of its levels."""
    items = "".join(f"<li>{escape(render_finding(one))}</li>" for one in many.overview.findings)
    advice = f'<div class="advice"><ol>{items}</ol></div>' if items else ""
    rows = wording.metric_rows(found)
    table = render_table(wording.METRIC_TITLES, rows, label="Comparison", numbers=range(1, 7))
    return (
        f"{advice}{render_cells(many).replace('<h2>', '<h3>').replace('</h2>', '</h3>')}"
        f"<h3>{escape(found.a)} against {escape(found.b)}</h3>"
        f"<p>{escape(wording.headline(found))}</p>{table}"
        f'<p class="quiet">{escape(wording.rule_line(found))}</p>'
    )


def printed_text(text: str) -> str:
    """What a command printed, as it stood on the terminal."""
    return render_log(text)
