"""One self-contained HTML file for one or several runs: no request leaves it.

Puts the parts together; the sections, plots and assets stand in their own files.
"""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from trainload.analyse import RunSummary
from trainload.analyse.attribution.types import RunLayers
from trainload.errors import MissingPart
from trainload.record import Run
from trainload.report.markup import escape, render_json, render_table
from trainload.report.run.plots import RunPlots, plot_run
from trainload.report.run.rows import gpu_load, render_rate, render_source_energy, title_of
from trainload.report.run.sections import render_run
from trainload.report.wording import render_outcome, render_overhead
from trainload.units import MISSING, render_percent, render_seconds

SMOOTHED_SAMPLES = 100
"""Fewer samples than this are drawn raw at first: over them an average is a flat line."""
_SMOOTHING = (("none", "none"), ("50", "w = 50"), ("100", "w = 100"))
_CHOICES = (
    ("axis", "Horizontal axis", (("time", "time"), ("iteration", "iteration")), "time"),
    ("theme", "Theme", (("auto", "auto"), ("light", "light"), ("dark", "dark")), "auto"),
)


def render_html(
    runs: Sequence[tuple[Run, RunSummary]], layers: Sequence[RunLayers | None] = ()
) -> str:
    """The report of some runs as the text of one HTML file.

    `layers` holds the attribution of each run, None for a run without one; left empty, no run
    has one. MissingPart where plotly is not installed.
    """
    layers = layers or [None] * len(runs)
    plots = [
        plot_run(run, summary, found) for (run, summary), found in zip(runs, layers, strict=True)
    ]
    script, library = load_asset("report.js"), load_plotlyjs()
    title = title_of(runs[0][0].manifest) if len(runs) == 1 else f"{len(runs)} runs"
    return "\n".join(
        (
            "<!DOCTYPE html>",
            '<html lang="en" data-theme="auto">',
            '<head><meta charset="utf-8">',
            render_policy(library, script),
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(title)} – trainload</title>",
            f"<style>{load_asset('report.css')}</style></head>",
            "<body>",
            '<a class="skip" href="#content">Skip to the report</a>',
            _render_top(runs),
            '<main id="content" tabindex="-1">',
            _render_comparison(runs),
            *_render_runs(runs, plots, layers),
            "</main>",
            "<footer><p>Made by trainload. Loads are drawn raw (thin) and as a moving average "
            "over w neighbouring samples (bold). A gap is a missing value.</p></footer>",
            f'<script type="application/json" id="data">'
            f"{render_json([p.data for p in plots])}</script>",
            f"<script>{library}</script>",
            f"<script>{script}</script>",
            "</body></html>\n",
        )
    )


def _render_runs(
    runs: Sequence[tuple[Run, RunSummary]],
    plots: Sequence[RunPlots],
    layers: Sequence[RunLayers | None],
) -> list[str]:
    return [
        render_run(run, summary, drawn, f"run-{at}", found)
        for at, ((run, summary), drawn, found) in enumerate(
            zip(runs, plots, layers, strict=True), start=1
        )
    ]


def _render_top(runs: Sequence[tuple[Run, RunSummary]]) -> str:
    longest = max((run.samples.height for run, _ in runs), default=0)
    smoothing = "50" if longest >= SMOOTHED_SAMPLES else "none"
    controls = "".join(
        f"<fieldset><legend>{label}</legend>"
        + "".join(
            f'<label><input type="radio" name="{name}" value="{value}"'
            f"{' checked' if value == chosen else ''}><span>{text}</span></label>"
            for value, text in options
        )
        + "</fieldset>"
        for name, label, options, chosen in (
            ("smoothing", "Smoothing", _SMOOTHING, smoothing),
            *_CHOICES,
        )
    )
    links = ""
    if len(runs) > 1:
        items = "".join(
            f'<li><a href="#run-{at}">{at}. {escape(title_of(run.manifest))}</a></li>'
            for at, (run, _) in enumerate(runs, start=1)
        )
        links = f'<nav aria-label="Runs"><ul>{items}</ul></nav>'
    return (
        f'<header class="top"><h1>Training report</h1>{links}</header>'
        f'<form class="controls" aria-label="How plots are drawn">{controls}</form>'
    )


def _render_comparison(runs: Sequence[tuple[Run, RunSummary]]) -> str:
    if len(runs) < 2:
        return ""
    titles = (
        "run",
        "outcome",
        "batch",
        "steps",
        "training",
        "step, median",
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


def render_policy(*scripts: str) -> str:
    """A content policy: only these very scripts run, and nothing is fetched."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'"
        for s in scripts
    )
    return (
        '<meta http-equiv="Content-Security-Policy" content="'
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'\">"
    )


@cache
def load_asset(name: str) -> str:
    """A style or script of this room."""
    return files("trainload.report").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def load_plotlyjs() -> str:
    """Plotly's script, fit to stand inside a page; MissingPart where it is not installed."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise MissingPart(
            "the HTML report needs plotly, which is not installed; pip install 'trainload[report]'"
        ) from None
    return str(get_plotlyjs()).replace("</script", "<\\/script")
