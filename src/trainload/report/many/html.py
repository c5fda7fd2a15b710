"""One self-contained HTML file for a study, or for several runs beside each other.

Puts the sections together; of few runs each stands in full below, of many one is opened at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainload.analyse import summarise_run
from trainload.errors import TrainloadError
from trainload.report.many.curves import ManyCurves, curves_of
from trainload.report.many.layers import layers_data, render_layers
from trainload.report.many.overview import render_overview
from trainload.report.many.tables import (
    render_cells,
    render_configuration,
    render_effects,
    render_runs,
)
from trainload.report.many.view import ManyRuns
from trainload.report.markup import escape
from trainload.report.page import THEME, Choice, render_controls, render_page
from trainload.report.run.html import SMOOTHED_SAMPLES
from trainload.report.run.plots import RunPlots, plot_run
from trainload.report.run.sections import render_run
from trainload.report.run.view import RunView

_FOOTER = (
    "Made by trainload. Figures are measured unless their hover says otherwise; a dash is a "
    "missing value, never zero. This file asks the network for nothing."
)
FULL_RUNS = 6
"""Up to so many runs each is shown in full below the comparison."""
FULL_POINTS = 4000
"""Points of a curve there, shared by the runs."""
_WINDOWS = (("none", "none"), ("50", "w = 50"), ("100", "w = 100"), ("own", "w ="))
_AXIS: Choice = (
    "axis",
    "Horizontal axis",
    (("time", "time"), ("iteration", "iteration")),
    "time",
)


@dataclass(frozen=True, kw_only=True)
class ManyPage:
    """A finished page, and what of its runs could not be read: the name, and why."""

    text: str
    problems: Sequence[tuple[str, str]]


def render_many(many: ManyRuns) -> ManyPage:
    """The page of many runs or a study; MissingPart where plotly is not installed."""
    curves = curves_of(many)
    many = replace(many, problems=(*many.problems, *curves.problems))
    layers = layers_data(many)
    articles, drawn = _full_runs(many)
    text = render_page(
        title=many.title,
        skip="Skip to the report",
        top=_render_top(many, curves, layers=bool(layers), full=bool(articles)),
        sections=(
            render_overview(many),
            *((render_runs(many),) if many.runs else ()),
            *((_render_curves(many, curves),) if many.runs else ()),
            render_cells(many),
            render_effects(many),
            render_layers(many, layers),
            render_configuration(many),
            *articles,
            *((_render_panel(many),) if many.runs and not articles else ()),
        ),
        footer=_FOOTER,
        data={
            "full": [plots.data for plots in drawn],
            "factors": [
                {"name": name, "levels": list(levels)} for name, levels in many.levels.items()
            ],
            "quantities": list(curves.quantities),
            "runs": [
                {"name": shown.name, "levels": levels, "counts": shown.reason is None, **packed}
                for shown, levels, packed in zip(
                    many.runs, many.run_levels, curves.runs, strict=True
                )
            ],
            "layers": layers,
        },
        styles=("report.css", "many.css"),
        scripts=("look.js", "tables.js", "report.js", "curves.js", "many.js"),
    )
    return ManyPage(text=text, problems=many.problems)


def _render_top(many: ManyRuns, curves: ManyCurves, *, layers: bool, full: bool) -> str:
    sections = [("overview", "Overview")]
    if many.runs:
        sections += [("runs", "Runs"), ("curves", "Curves")]
    if not many.overview.cells.is_empty():
        sections.append(("cells", "Cells"))
    if any(frame.height for frame in many.overview.effects.values()):
        sections.append(("effects", "Effects"))
    sections += [("layers", "Layers")] * layers
    sections += [("configuration", "Configuration")] * bool(many.runs)
    sections += [("full", "Each run") if full else ("one", "One run")] * bool(many.runs)
    items = "".join(f'<li><a href="#{at}">{name}</a></li>' for at, name in sections)
    kind = "Study" if many.is_study else "Runs beside each other"
    own = (
        '<label class="own"><input type="number" id="window" aria-label="own w, in readings" '
        'min="1" max="100000" value="200" inputmode="numeric"></label>'
    )
    # Over few samples an average is a flat line.
    smoothing = "50" if curves.typical >= SMOOTHED_SAMPLES else "none"
    controls = render_controls(
        "How plots are drawn", (("smoothing", "Smoothing", _WINDOWS, smoothing), _AXIS, THEME)
    )
    return (
        f'<header class="top"><h1>{kind}</h1>'
        f'<nav aria-label="Sections"><ul>{items}</ul></nav></header>'
        + controls.replace("<span>w =</span></label>", f"<span>w =</span></label>{own}")
    )


def _render_curves(many: ManyRuns, curves: ManyCurves) -> str:
    """The place of the overlaid curves, with the choice of what makes a line."""
    factors = [
        (at, name) for at, name in enumerate(many.tidy.factors) if len(many.levels[name]) > 1
    ]
    options = "".join(
        f'<option value="{at}">one line per level of {escape(name)}</option>'
        for at, name in factors
    )
    options += '<option value="run">one line per run</option>'
    left = ""
    if curves.left_out:
        left = f" Of up to {curves.left_out} further columns a run there is no curve here."
    thinned = ""
    if curves.readings > curves.points:
        thinned = (
            f" Up to {curves.readings:,} readings of a series are thinned to at most "
            f"{curves.points} points; each keeps the lowest, the mean and the highest of its "
            "readings, so no spike is lost. A window w smaller than a point is drawn as the point."
        )
    told = (
        "The bold line is the mean over the runs of a level, smoothed over w readings; bands "
        "reach from their lowest to their highest reading. A mean of several runs bridges the gaps "
        "of one. Drag to zoom all plots at once, "
        f"double-click to go back.{thinned}{left}"
    )
    choice = (
        f'<label>Lines <select id="lines">{options}</select></label>'
        '<label><input type="checkbox" id="bands"> bands</label>'
    )
    return (
        '<section id="curves"><h2>Curves</h2><form class="filters" aria-label="What makes a line">'
        f'{choice}<p role="status" id="drawn"></p></form><p class="quiet">{told}</p>'
        '<div class="legend" id="lines-legend"></div>'
        '<div class="plots" id="curve-plots"></div></section>'
    )


def _render_panel(many: ManyRuns) -> str:
    options = "".join(
        f'<option value="{at}">{escape(shown.name)}</option>' for at, shown in enumerate(many.runs)
    )
    return (
        '<section id="one"><h2>One run</h2><form class="filters" aria-label="Which run is shown">'
        '<button type="button" id="before">‹ before</button>'
        f'<label>Run <select id="one-run">{options}</select></label>'
        '<button type="button" id="next">next ›</button></form>'
        '<dl class="pairs" id="one-facts"></dl>'
        '<div class="plots" id="one-plots"></div>'
        '<p class="quiet">Everything of one run, its layers and meters too: '
        "trainload report RUN.</p></section>"
    )


def _full_runs(many: ManyRuns) -> tuple[list[str], list[RunPlots]]:
    """Each run in full, folded, where they are few; nothing where they are many."""
    if not 0 < len(many.runs) <= FULL_RUNS:
        return [], []
    views: list[RunView] = []
    for shown in many.runs:
        if shown.run is None:
            continue
        try:
            summary = summarise_run(shown.run)
        except TrainloadError:
            continue  # the overview names it among what could not be read
        points = FULL_POINTS // len(many.runs)
        plots = plot_run(shown.run, summary, shown.layers, points=points)
        views.append(
            RunView(
                run=shown.run,
                summary=summary,
                plots=plots,
                anchor=f"run-{len(views) + 1}",
                layers=shown.layers,
            )
        )
    blocks = _folded(many, views)
    return (
        ['<section id="full"><h2>Each run in full</h2>', *blocks, "</section>"],
        [view.plots for view in views],
    )


def _folded(many: ManyRuns, views: Sequence[RunView]) -> list[str]:
    names = {id(shown.run): shown.name for shown in many.runs}
    return [
        f'<details class="full"><summary>{escape(names[id(view.run)])}</summary>'
        f"{render_run(view)}</details>"
        for view in views
    ]
