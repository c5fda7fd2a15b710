"""A workload's history on the terminal: a line of bars, the runs, and what changed where."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trainload.analyse.compare.history import Change, History
from trainload.report.compare.wording import interval, signed
from trainload.report.wording import clean_text, render_figure, render_name

_BARS = "▁▂▃▄▅▆▇█"
_WIDEST = 100
_MOST = 40
"""Runs in the table; of more the last ones and those around a change."""


def sparkline(values: list[float], width: int = _WIDEST) -> str:
    """One bar a value, of more than `width` the mean of neighbours."""
    if len(values) > width:
        edges = [round(at * len(values) / width) for at in range(width + 1)]
        parts = [values[a:b] for a, b in pairwise(edges)]
        values = [math.fsum(part) / len(part) for part in parts]
    if not values:
        return ""
    low, high = min(values), max(values)
    span = high - low or 1.0
    return "".join(_BARS[min(int((v - low) / span * len(_BARS)), len(_BARS) - 1)] for v in values)


def render_history(found: History) -> Group:
    """The history of one workload."""
    count = len(found.points)
    values = [point.value for point in found.points]
    low, high = (render_figure(found.metric, pick(values)) for pick in (min, max))
    parts: list[RenderableType] = [
        Text(f"{clean_text(found.title)}: {render_name(found.metric)}, {count} runs", style="bold"),
        Text(f"{sparkline(values)}  {low} … {high}"),
        _runs(found),
    ]
    if not found.changes:
        parts.append(Text("no change of level found"))
    for change in found.changes:
        parts.append(Text(change_line(found, change), style="bold"))
        facts = [*change.configuration, *change.environment]
        told = [f"  {clean_text(f.name)}: {clean_text(f.a)} → {clean_text(f.b)}" for f in facts]
        parts.append(Text("\n".join(told or ["  nothing recorded differs between these two runs"])))
    if found.left_out:
        parts.append(Text(f"left out: {clean_text(', '.join(found.left_out[:5]))}"))
    return Group(*parts)


def change_line(found: History, change: Change) -> str:
    """One change in a sentence."""
    name = found.metric
    percent = "" if change.percent is None else f" ({change.percent:+.1f} %)"
    where = f"run {change.at + 1}"
    if change.earliest != change.latest:
        where += f" (between {change.earliest + 1} and {change.latest + 1})"
    return (
        f"{change.verdict} from {where}, {clean_text(found.points[change.at].created)}: "
        f"{render_figure(name, change.before)} → {render_figure(name, change.after)}, "
        f"{signed(name, change.difference)}{percent}, "
        f"{interval(name, change.low, change.high)}, p {change.p_value:.2g}"
    )


def _runs(found: History) -> Table:
    table = Table()
    for title in ("", "begun", "run", render_name(found.metric)):
        table.add_column(title, justify="right" if title in ("", found.metric) else "left")
    changes = {change.at for change in found.changes}
    count = len(found.points)
    near = {at + step for at in changes for step in (-1, 0)}
    for at, point in enumerate(found.points):
        if at < count - _MOST and at not in near:
            continue
        mark = "◂ change" if at in changes else ""
        run = clean_text(Path(point.run).name)
        value = f"{render_figure(found.metric, point.value)} {mark}".rstrip()
        table.add_row(str(at + 1), clean_text(point.created), run, value)
    if count > _MOST:
        table.caption = f"the last {_MOST} of {count} runs and those around changes"
    return table
