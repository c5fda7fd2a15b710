"""The live page: its HTML, and what its script draws at each look; the words are the screen's.

The page asks for one document a second and shows it; it can ask nothing of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainload.analyse.live import LiveChart, LiveView
from trainload.report.live import wording
from trainload.report.live.chart import axis_range
from trainload.report.study import StatusLike, render_line, status_rows
from trainload.report.wording import clean_text
from trainload.units import render_percent, render_seconds

HTML = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>trainload live</title>
<link rel="stylesheet" href="live.css">
</head><body>
<header><h1 id="title">trainload live</h1><p id="standing" role="status"></p></header>
<main>
<dl id="figures"></dl>
<div id="charts"></div>
<section id="tables"></section>
<section id="notes"><h2>Marks and notes</h2><ul></ul></section>
</main>
<footer><p>Read from the files of the run; nothing here changes it.</p></footer>
<script src="live.js"></script>
</body></html>
"""
ASSETS = {"live.js": "text/javascript", "live.css": "text/css"}


def run_document(view: LiveView) -> dict[str, Any]:
    """What the page shows of a run, as JSON values; all texts are ready to be shown."""
    return {
        "title": wording.render_title(view),
        "standing": wording.render_standing(view),
        "running": view.standing == "running",
        "good": view.outcome in (None, "completed"),
        "figures": [list(pair) for pair in wording.render_figures(view)],
        "charts": [_chart(chart) for chart in view.charts],
        "tables": [_layers(view)],
        "notes": list(wording.render_notes(view, 20)),
    }


def study_document(status: StatusLike, *, running: bool) -> dict[str, Any]:
    """What the page shows of a study."""
    titles, rows = status_rows(status, 500)
    return {
        "title": clean_text(status.name),
        "standing": render_line(status),
        "running": running,
        "good": not status.failed,
        "figures": [],
        "charts": [],
        "tables": [
            {"title": "Cells", "note": "", "columns": titles, "rows": rows, "right": [2, 3]}
        ],
        "notes": [],
    }


def _chart(chart: LiveChart) -> dict[str, Any]:
    lines = [one.points for one in chart.series]
    limits = sorted({one.limit for one in chart.series if one.limit is not None})
    found = {"name": chart.name, "title": wording.TITLES[chart.name]}
    if not any(lines):
        return {**found, "empty": wording.render_empty(chart), "series": []}
    low, high = axis_range([value for line in lines for _, value in line], chart.top, limits)
    column = chart.series[0].column
    times = [t_s for line in lines for t_s, _ in line]
    return {
        **found,
        "empty": None,
        "low": low,
        "high": high,
        "lowest": wording.render_figure(column, low),
        "highest": wording.render_figure(column, high),
        "first_s": min(times),
        "last_s": max(times),
        "from": render_seconds(min(times)),
        "to": render_seconds(max(times)),
        "limits": [limit for limit in limits if limit <= high],
        "series": [
            {"label": label, "points": _rounded(one.points)}
            for label, one in zip(wording.render_legend(chart), chart.series, strict=True)
        ],
    }


def _rounded(points: Sequence[tuple[float, float]]) -> list[list[float]]:
    return [[round(t_s, 2), float(f"{value:.5g}")] for t_s, value in points]


def _layers(view: LiveView) -> dict[str, Any]:
    found = view.layers
    table: dict[str, Any] = {"title": "Layers so far", "columns": [], "rows": [], "right": [2, 3]}
    if found is None:
        return {**table, "note": clean_text(view.layers_note or "")}
    parts = ", ".join(
        f"{name} {render_percent(spent_s / found.step_s, 0)}" for name, spent_s in found.parts[:6]
    )
    rows = [
        [
            clean_text(one.layer),
            clean_text(one.class_name or ""),
            render_seconds(one.time_s),
            render_percent(one.fraction),
        ]
        for one in found.layers
    ]
    note = f"window {found.window}, times as traced: {parts}"
    return {**table, "note": note, "columns": ["layer", "class", "time", "of a step"], "rows": rows}
