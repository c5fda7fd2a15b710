"""The sections with curves over the run: the training's own, and the loads."""

from collections.abc import Sequence

from trainload.report.markup import escape, render_canvas, render_details, render_table
from trainload.report.run.plots import Figure, series_names
from trainload.report.run.rows import load_rows
from trainload.report.run.view import RunView
from trainload.workload import RecordedScript, RecordedWatch


def render_training(view: RunView) -> str:
    """Losses and scores, or why there are none."""
    return _render_plots(view, "Training", view.plots.training, 0, _no_training(view))


def render_speed(view: RunView) -> str:
    """Step time and throughput over time; empty without a step."""
    first = len(view.plots.training)
    return _render_plots(view, "Speed", view.plots.speed, first, "") if view.plots.speed else ""


def render_loads(view: RunView) -> str:
    """What the meters read over time."""
    first = len(view.plots.training) + len(view.plots.speed)
    return _render_plots(view, "Loads", view.plots.loads, first, "No sample was taken.")


def _render_plots(
    view: RunView, title: str, figures: Sequence[Figure], first: int, nothing: str
) -> str:
    """`first` is the place of the first figure in the page's data."""
    if not figures:
        return f'<section><h3>{title}</h3><p class="quiet">{nothing}</p></section>'
    drawn = "".join(
        _render_figure(view, figure, at) for at, figure in enumerate(figures, start=first)
    )
    key = ""
    if view.plots.bands:
        names = "".join(
            f'<li><span class="band b{at % 4}"></span>{escape(name)}</li>'
            for at, name in enumerate(view.plots.bands)
        )
        key = f'<ul class="key" aria-label="Shaded stretches of time">{names}</ul>'
    return f'<section><h3>{title}</h3>{key}<div class="plots">{drawn}</div></section>'


def _no_training(view: RunView) -> str:
    """Why no plot of the training is there."""
    if not view.summary.steps:
        return "No step was finished."
    if isinstance(view.manifest.workload, RecordedScript):
        return "No loss was seen: no backward pass began at a single number."
    if isinstance(view.manifest.workload, RecordedWatch):
        return "No loss was told."
    return "No loss was finite."


def _render_figure(view: RunView, figure: Figure, at: int) -> str:
    summary = view.summary
    series = [] if figure.heat else series_names(view.plots.data["figures"][at])
    canvas = render_canvas(figure.title, f"{view.anchor}-plot-{at}", series)
    rows = [
        (r.column, r.min, r.mean, r.max, r.readings, r.provenance)
        for r in load_rows(summary, view.manifest, figure.columns)
    ]
    table = ""
    if rows:
        titles = ("quantity", "min", "mean", "max", "readings", "provenance")
        label = f"Figures of {figure.title}"
        table = render_details(
            f"Figures over {summary.covered}",
            render_table(titles, rows, label=label, numbers=(1, 2, 3, 4)),
        )
    return f"<figure><h4>{escape(figure.title)}</h4>{canvas}{table}</figure>"
