"""The plots of a run and of a study as plotly's own description, each under a name to ask for.

A run's are those of its page; the data come ready from there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trainload.analyse import RunSummary
from trainload.analyse.attribution.types import RunLayers
from trainload.record import Run
from trainload.report.markup import escape
from trainload.report.run.plots import plot_run

if TYPE_CHECKING:
    import polars as pl

_FONT = {"family": "sans-serif", "size": 14}


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A plot: the name it is asked for by, and what plotly draws."""

    name: str
    traces: tuple[Mapping[str, Any], ...]
    layout: Mapping[str, Any]


def run_plots(run: Run, summary: RunSummary, layers: RunLayers | None = None) -> list[Plot]:
    """Every plot of a run's page: training, loads, layers, and the icicle of its modules."""
    data = plot_run(run, summary, layers).data
    found = [_curves(figure, data["grids"], data["time"]) for figure in data["figures"]]
    found += [_icicle(tree, at) for at, tree in enumerate(data["trees"])]
    return _named_apart(found)


def cell_plots(cells: pl.DataFrame) -> list[Plot]:
    """One plot a metric of a study's cells: the medians, with their intervals where known."""
    return [
        _cell_plot(part["metric"][0], part)
        for part in cells.partition_by("metric", maintain_order=True)
    ]


def _curves(figure: Mapping[str, Any], grids: Sequence[Any], time: str) -> Plot:
    traces = tuple(
        {
            "type": "scatter",
            "mode": "lines",
            "name": escape(series["name"]),
            "x": grids[series["grid"]]["time"],
            "y": series["raw"],
        }
        for series in figure["series"]
    )
    vertical: dict[str, Any] = {"title": {"text": escape(figure["axis"])}}
    if figure["percent"]:
        vertical |= {"tickformat": ".0%", "range": [0, 1]}
    return Plot(
        name=_slug(figure["title"]),
        traces=traces,
        layout=_layout(figure["title"], xaxis={"title": {"text": time}}, yaxis=vertical),
    )


def _icicle(tree: Mapping[str, Any], rank: int) -> Plot:
    """Modules below the step; a module's width is its own time and that of what is below it."""
    items = tree["items"]
    sums = [sum(item[3:]) for item in items]
    for at in range(len(items) - 1, -1, -1):
        if items[at][0] >= 0:
            sums[items[at][0]] += sums[at]
    rest = [entry for entry in tree["rest"] if entry[3] < 0]
    ids = ["step", *(f"m{at}" for at in range(len(items))), *(f"r{at}" for at in range(len(rest)))]
    parents = ["", *("step" if item[0] < 0 else f"m{item[0]}" for item in items)]
    whole = sum(s for s, item in zip(sums, items, strict=True) if item[0] < 0)
    whole += sum(entry[2] for entry in rest)
    trace = {
        "type": "icicle",
        "ids": ids,
        "labels": ["step", *(escape(item[1]) for item in items), *(escape(r[1]) for r in rest)],
        "parents": [*parents, *("step" for _ in rest)],
        "values": [whole, *sums, *(entry[2] for entry in rest)],
        "branchvalues": "total",
        "sort": False,
        "texttemplate": "%{label} · %{percentRoot:.0%}",
        "tiling": {"orientation": "h"},
    }
    title = "Where a step goes, by module" + (f", rank {rank}" if rank else "")
    return Plot(name=_slug(title), traces=(trace,), layout=_layout(title))


def _cell_plot(metric: str, part: pl.DataFrame) -> Plot:
    medians = part["median"].to_list()
    bounds = [
        [
            None if end is None else abs(end - middle)
            for end, middle in zip(ends, medians, strict=True)
        ]
        for ends in (part["high"].to_list(), part["low"].to_list())
    ]
    trace = {
        "type": "scatter",
        "mode": "markers",
        "y": [escape(cell) for cell in part["cell"]],
        "x": medians,
        "error_x": {"type": "data", "array": bounds[0], "arrayminus": bounds[1]},
    }
    layout = _layout(
        f"{metric}: median of each cell, 95 % interval where known",
        xaxis={"title": {"text": escape(metric)}, "rangemode": "tozero"},
        yaxis={"automargin": True, "autorange": "reversed"},
        height=max(400, 120 + 24 * part.height),
        showlegend=False,
    )
    return Plot(name=metric, traces=(trace,), layout=layout)


def _layout(title: str, **more: Any) -> dict[str, Any]:
    return {
        "title": {"text": escape(title)},
        "font": _FONT,
        "template": "plotly_white",
        "showlegend": True,
        "legend": {"orientation": "h", "y": -0.2},
        **more,
    }


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _named_apart(plots: Sequence[Plot]) -> list[Plot]:
    """Plots of several ranks share a title: from the second on they are numbered."""
    seen: Counter[str] = Counter()
    named = []
    for plot in plots:
        seen[plot.name] += 1
        again = seen[plot.name]
        named.append(plot if again == 1 else replace(plot, name=f"{plot.name}-{again}"))
    return named
