"""One self-contained HTML file for one or several runs.

Puts the parts together; the shell, the sections and the plots stand in their own files.
"""

from collections.abc import Sequence

from trainload.analyse import RunSummary
from trainload.analyse.attribution.types import RunLayers
from trainload.record import Run
from trainload.report.markup import escape, render_table
from trainload.report.page import THEME, render_controls, render_page
from trainload.report.run.headline import render_rate
from trainload.report.run.plots import plot_run
from trainload.report.run.rows import gpu_load, render_source_energy, title_of
from trainload.report.run.sections import render_run
from trainload.report.run.view import RunView
from trainload.report.wording import render_outcome, render_overhead
from trainload.units import MISSING, render_percent, render_seconds

SMOOTHED_SAMPLES = 100
"""Fewer samples than this are drawn raw at first: over them an average is a flat line."""
_SMOOTHING = (("none", "none"), ("50", "w = 50"), ("100", "w = 100"))
_AXIS = ("axis", "Horizontal axis", (("time", "time"), ("iteration", "iteration")), "time")


def render_html(
    runs: Sequence[tuple[Run, RunSummary]],
    layers: Sequence[RunLayers | None] = (),
    problems: Sequence[tuple[str, str]] = (),
) -> str:
    """The report of some runs as the text of one HTML file.

    `layers` holds the attribution of each run, None for a run without one; left empty, no run
    has one. `problems` are directories that could not be read, by name, and why: a line each.
    MissingPart where plotly is not installed.
    """
    layers = layers or [None] * len(runs)
    plots = [
        plot_run(run, summary, found) for (run, summary), found in zip(runs, layers, strict=True)
    ]
    sections = [
        render_run(RunView(run=run, summary=summary, plots=drawn, anchor=f"run-{at}", layers=found))
        for at, ((run, summary), drawn, found) in enumerate(
            zip(runs, plots, layers, strict=True), start=1
        )
    ]
    return render_page(
        title=title_of(runs[0][0].manifest) if len(runs) == 1 else f"{len(runs)} runs",
        skip="Skip to the report",
        top=_render_top(runs),
        sections=(_render_problems(problems), _render_comparison(runs), *sections),
        footer="Made by trainload. Loads are drawn raw (thin) and as a moving average "
        "over w neighbouring samples (bold). A gap is a missing value.",
        data=[drawn.data for drawn in plots],
        styles=("report.css",),
        script="report.js",
    )


def _render_top(runs: Sequence[tuple[Run, RunSummary]]) -> str:
    longest = max((run.samples.height for run, _ in runs), default=0)
    smoothing = "50" if longest >= SMOOTHED_SAMPLES else "none"
    links = ""
    if len(runs) > 1:
        items = "".join(
            f'<li><a href="#run-{at}">{at}. {escape(title_of(run.manifest))}</a></li>'
            for at, (run, _) in enumerate(runs, start=1)
        )
        links = f'<nav aria-label="Runs"><ul>{items}</ul></nav>'
    return f'<header class="top"><h1>Training report</h1>{links}</header>' + render_controls(
        "How plots are drawn", (("smoothing", "Smoothing", _SMOOTHING, smoothing), _AXIS, THEME)
    )


def _render_problems(problems: Sequence[tuple[str, str]]) -> str:
    if not problems:
        return ""
    lines = "".join(f"<li>{escape(name)}: {escape(words)}</li>" for name, words in problems)
    return f"<section><h2>Not read</h2><ul>{lines}</ul></section>"


def _render_comparison(runs: Sequence[tuple[Run, RunSummary]]) -> str:
    if len(runs) < 2:
        return ""
    titles = (
        "run",
        "outcome",
        "batch",
        "steps",
        "training",
        "step time",
        "examples/s",
        "best accuracy",
        "mean CPU load",
        "mean GPU load",
        "energy",
        "own overhead",
    )
    rows = [_comparison_row(at, run, summary) for at, (run, summary) in enumerate(runs, start=1)]
    table = render_table(titles, rows, label="Comparison of runs", numbers=range(2, 11))
    return f"<section><h2>Comparison</h2>{table}</section>"


def _comparison_row(at: int, run: Run, summary: RunSummary) -> tuple[str, ...]:
    best = summary.best.validation.get("accuracy") if summary.best else None
    gpu = gpu_load(summary)
    loads = (summary.columns.get("host_cpu_load_fraction"), gpu[1] if gpu else None)
    energy = next((s for s in summary.energy if s.energy_j is not None), None)
    return (
        f"{at}. {title_of(run.manifest)}",
        render_outcome(summary.outcome),
        str(run.manifest.batch_size or MISSING),
        f"{summary.steps:,}",
        render_seconds(summary.training_s),
        render_seconds(summary.step_time.median_s),
        render_rate(summary.examples_per_s).removesuffix(" examples/s"),
        render_percent(best),
        *(render_percent(load.mean if load else None) for load in loads),
        f"{energy.source}: {render_source_energy(energy, summary, watt_hours=False)}"
        if energy
        else MISSING,
        render_overhead(run.manifest.overhead).removeprefix("own overhead: "),
    )
