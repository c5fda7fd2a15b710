"""The layers of many runs: a table of what is explained, and curves of the run that is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainload.analyse.attribution.types import RankLayers
from trainload.report.layers.plots import layer_curves, traced_steps
from trainload.report.many.view import ManyRuns, ShownRun
from trainload.report.markup import Cell, escape, render_sortable
from trainload.report.wording import clean_text
from trainload.units import MISSING, render_percent, render_seconds

MOST_RUNS = 24
"""Whose layers are drawn; the table holds as many."""


def layers_data(many: ManyRuns) -> list[dict[str, Any]]:
    """Curves over the traced steps of each run's first process."""
    return [
        {"run": at, "name": f"{shown.name} · {clean_text(rank.device)}", **_curves(rank)}
        for at, shown, rank in _traced(many)
    ]


def _traced(many: ManyRuns) -> list[tuple[int, ShownRun, RankLayers]]:
    found = [
        (at, shown, shown.layers.ranks[0])
        for at, shown in enumerate(many.runs)
        if shown.layers is not None and shown.layers.ranks
    ]
    return found[:MOST_RUNS]


def _curves(rank: RankLayers) -> dict[str, Any]:
    steps = traced_steps(rank)
    return {
        "steps": steps,
        "figures": [
            {
                "title": curve.title,
                "axis": curve.axis,
                "percent": curve.percent,
                "names": curve.names,
                "values": curve.values,
            }
            for curve in layer_curves(rank, steps)
        ],
    }


def render_layers(many: ManyRuns, data: Sequence[Mapping[str, Any]]) -> str:
    """The section; empty where no run was traced."""
    traced = _traced(many)
    if not traced:
        return ""
    titles = [
        ("run", ""), ("device", "whose time is partitioned"),
        ("step, profiling off", "mean of the steps outside of windows"),
        ("step, profiling on", "mean of the traced steps"),
        ("difference", "on − off, of the steps that were traced"),
        ("cost to the run", "of the training time, all windows together"),
        ("explained", "1 − remainder"), ("unexplained", "the remainder's share of the step"),
    ]  # fmt: skip
    rows = (
        (f'data-levels="{" ".join(map(str, many.run_levels[at]))}"', _cells(shown, rank))
        for at, shown, rank in traced
    )
    options = "".join(
        f'<option value="{at}">{escape(entry["name"])}</option>' for at, entry in enumerate(data)
    )
    all_traced = sum(shown.layers is not None for shown in many.runs)
    more = ""
    if all_traced > len(traced):
        more = f'<p class="quiet">{all_traced - len(traced)} more traced runs are left out.</p>'
    return (
        '<section id="layers"><h2>Layers</h2>'
        f"{render_sortable(titles, rows, label='Layers of each run', name='layers-table')}{more}"
        f'<p><label>Run <select id="layer-run">{options}</select></label></p>'
        '<div class="plots" id="layer-plots"></div></section>'
    )


def _cells(shown: ShownRun, rank: RankLayers) -> list[Cell]:
    on = rank.traced_step_s / rank.step_s - 1 if rank.corrected and rank.step_s else None
    off_s = rank.step_s if rank.corrected else None
    explained = rank.explained_fraction
    return [
        Cell(text=shown.name, title=clean_text(shown.key)),
        Cell(text=clean_text(rank.device), mark="words"),
        Cell(text=render_seconds(off_s), value=off_s, title="measured"),
        Cell(text=render_seconds(rank.traced_step_s), value=rank.traced_step_s, title="measured"),
        Cell(text=MISSING if on is None else f"{on * 100:+.1f} %", value=on),
        Cell(text=render_percent(rank.cost.fraction, 2), value=rank.cost.fraction),
        Cell(text=render_percent(explained), value=explained),
        Cell(text=render_percent(1 - explained), value=1 - explained),
    ]
