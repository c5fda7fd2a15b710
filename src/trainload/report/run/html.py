"""One self-contained HTML file for one run.

Puts the parts together; the shell, the sections and the plots stand in their own files.
"""

from trainload.analyse import RunSummary
from trainload.analyse.attribution.types import RunLayers
from trainload.analyse.curves import MOST_POINTS
from trainload.record import Run
from trainload.report.page import THEME, render_controls, render_page
from trainload.report.run.plots import plot_run
from trainload.report.run.rows import title_of
from trainload.report.run.sections import render_run
from trainload.report.run.view import RunView

SMOOTHED_SAMPLES = 100
"""Fewer samples than this are drawn raw at first: over them an average is a flat line."""
_SMOOTHING = (("none", "none"), ("50", "w = 50"), ("100", "w = 100"))
_AXIS = ("axis", "Horizontal axis", (("time", "time"), ("iteration", "iteration")), "time")


def render_html(run: Run, summary: RunSummary, layers: RunLayers | None = None) -> str:
    """The report of one run as the text of one HTML file; `layers` is its attribution, if any.

    MissingPart where plotly is not installed.
    """
    plots = plot_run(run, summary, layers)
    view = RunView(run=run, summary=summary, plots=plots, anchor="run-1", layers=layers)
    smoothing = "50" if run.samples.height >= SMOOTHED_SAMPLES else "none"
    controls = render_controls(
        "How plots are drawn", (("smoothing", "Smoothing", _SMOOTHING, smoothing), _AXIS, THEME)
    )
    return render_page(
        title=title_of(run.manifest),
        skip="Skip to the report",
        top=f'<header class="top"><h1>Training report</h1></header>{controls}',
        sections=(render_run(view),),
        footer="Made by trainload. Loads are drawn raw (thin) and as a moving average "
        "over w neighbouring samples (bold). A gap is a missing value. "
        f"Series of more than {MOST_POINTS:,} points are thinned; every lowest and highest value "
        "is kept.",
        data={"full": [plots.data]},
        styles=("report.css",),
        scripts=("look.js", "tables.js", "report.js"),
    )
