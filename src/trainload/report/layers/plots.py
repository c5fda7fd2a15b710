"""The attribution as data for the page's script: curves over the traced steps, and the icicle.

Times come ready from `analyse`; here they are selected, given a unit, and laid out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainload.analyse.attribution.types import LayerNode, RankLayers
from trainload.report.layers.host import host_rows
from trainload.report.layers.rows import by_exclusive_time
from trainload.report.layers.tree import TreeLine, prune_tree
from trainload.report.layers.wording import (
    PARTS,
    has_several_roots,
    layer_name,
    render_folded,
    render_part,
)
from trainload.report.wording import clean_text

if TYPE_CHECKING:
    import polars as pl

MOST_LINES = 8
"""As many as there are colours; more lines in one plot cannot be told apart."""
MOST_POINTS = 400
"""Traced steps in a plot; of more, every n-th is drawn."""
MOST_MODULES = 1500
"""Modules in the icicle; shorter subtrees are folded."""
MOST_MODULES_BESIDE = 200
"""The same for each rank after the first."""
MOST_HOST = 12
"""Groups of the host's time in the icicle, and places of each."""
MOST_RANKS = 16
"""Ranks with plots of their own; the table of ranks holds all."""
NANOSECONDS = 1e9
_UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))


@dataclass(frozen=True, kw_only=True)
class LayerCurves:
    """Curves over the traced steps of one rank that share a vertical axis."""

    title: str
    axis: str
    names: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    percent: bool = False
    """Whether the values are shares."""


@dataclass(frozen=True, kw_only=True)
class RankPlots:
    """What is drawn of one rank: where its plots stand among those of the run."""

    titles: tuple[str, ...]
    first_figure: int
    tree: int
    """Position among the run's icicles."""


def traced_steps(rank: RankLayers) -> list[int]:
    """The traced steps that are drawn, in order."""
    steps: list[int] = rank.rows["step"].unique().sort().to_list()
    every = -(-len(steps) // MOST_POINTS) or 1
    return steps[::every]


def layer_curves(rank: RankLayers, steps: Sequence[int]) -> list[LayerCurves]:
    """Forward and backward of the costliest layers, and explained beside total time."""
    import polars as pl

    rows = rank.rows.filter(pl.col("step").is_in(list(steps)))
    rooted = has_several_roots(rank.nodes)
    shown = [n for n in by_exclusive_time(rank.nodes) if n.forward_s + n.backward_s > 0]
    curves = [
        _phase_curves(rows, phase, shown[:MOST_LINES], steps, rooted=rooted)
        for phase in ("forward", "backward")
    ]
    totals = rows.group_by("step").agg(
        pl.col("time_s").sum().alias("total"),
        pl.col("time_s").filter(pl.col("kind") != "remainder").sum().alias("explained"),
        pl.col("traced_s").sum().alias("traced"),
    )
    found = {row["step"]: row for row in totals.iter_rows(named=True)}
    names = {"total": "step", "explained": "explained"}
    if rank.corrected:
        names["traced"] = "step while traced"
    lines = {
        name: [found[step][column] if step in found else None for step in steps]
        for column, name in names.items()
    }
    curves.append(_in_unit("Explained and total time of a step", lines))
    curves.append(_unexplained(lines["step"], lines["explained"]))
    return [c for c in curves if any(v is not None for line in c.values for v in line)]


def _unexplained(total: Sequence[float | None], explained: Sequence[float | None]) -> LayerCurves:
    """The remainder's share of each step."""
    shares = tuple(
        round(1 - part / whole, 5) if whole and part is not None else None
        for whole, part in zip(total, explained, strict=True)
    )
    return LayerCurves(
        title="Unexplained share of a step",
        axis="share of the step",
        names=("unexplained",),
        values=(shares,),
        percent=True,
    )


def _phase_curves(
    rows: pl.DataFrame,
    phase: str,
    nodes: Sequence[LayerNode],
    steps: Sequence[int],
    *,
    rooted: bool,
) -> LayerCurves:
    import polars as pl

    chosen = rows.filter((pl.col("kind") == "layer") & (pl.col("phase") == phase))
    sums = chosen.group_by("step", "root", "layer").agg(pl.col("time_s").sum())
    found = {(s, root, layer): time_s for s, root, layer, time_s in sums.iter_rows()}
    lines = {
        _line_name(node, rooted=rooted): [found.get((s, node.root, node.layer)) for s in steps]
        for node in nodes
    }
    return _in_unit(f"{phase.capitalize()} time of the costliest layers", lines)


def _line_name(node: LayerNode, *, rooted: bool) -> str:
    """A layer's name; numbers alone, as in a sequence, say nothing without its class."""
    name = layer_name(node, rooted=rooted)
    bare = node.layer.replace(".", "").isdecimal() and node.class_name
    return f"{name} {clean_text(node.class_name)}" if bare else name


def _in_unit(title: str, lines: Mapping[str, Sequence[float | None]]) -> LayerCurves:
    longest = max((v for line in lines.values() for v in line if v is not None), default=0.0)
    unit, worth = next((u for u in _UNITS if longest >= u[1]), _UNITS[-1])
    return LayerCurves(
        title=title,
        axis=unit,
        names=tuple(lines),
        values=tuple(
            tuple(None if v is None else float(f"{v / worth:.5g}") for v in line)
            for line in lines.values()
        ),
    )


def curves_data(curves: LayerCurves, grid: int) -> dict[str, Any]:
    """Curves as one entry of the page's figures."""
    return {
        "title": curves.title,
        "axis": curves.axis,
        "percent": curves.percent,
        "series": [
            {"name": name, "grid": grid, "raw": list(values), "average": {}}
            for name, values in zip(curves.names, curves.values, strict=True)
        ],
    }


def grid_data(steps: Sequence[int], run_steps: pl.DataFrame, seconds: float) -> dict[str, Any]:
    """The horizontal axis of the curves: the steps, and when they ended where that is known."""
    import polars as pl

    ended: dict[int, float] = {}
    if {"step", "end_s"} <= set(run_steps.columns):
        known = run_steps.filter(pl.col("step").is_in(list(steps))).select("step", "end_s")
        ended = {step: end_s for step, end_s in known.iter_rows() if end_s is not None}
    times = [round(ended[s] / seconds, 5) if s in ended else None for s in steps]
    return {"time": times, "iteration": list(steps)}


def icicle_data(rank: RankLayers, most: int = MOST_MODULES) -> dict[str, Any]:
    """The module tree in whole nanoseconds, so that a parent is exactly the sum of its children.

    `items` stand parents first: parent (-1: the step), label, class, then nanoseconds of forward,
    backward, update and idle of the module itself; `memory` and `energy` by position of the item.
    `rest` are the parts of the step that belong to no module: part, label, nanoseconds, and the
    position of the entry that it is a piece of (-1: the step).
    """
    lines = prune_tree(rank.nodes, most)
    items = [_icicle_item(line) for line in lines]
    return {
        "items": items,
        "memory": {
            str(at): [m.parameters, m.parameter_bytes, m.gradient_bytes, m.optimizer_bytes,
                      m.activation_bytes, m.peak_bytes]
            for at, m in ((a, line.node.memory) for a, line in enumerate(lines) if line.node)
            if m is not None
        },
        "energy": {
            str(at): [float(f"{j:.4g}") for j in (e.energy_j, e.low_j, e.high_j)]
            for at, e in ((a, line.node.energy) for a, line in enumerate(lines) if line.node)
            if e is not None
        },
        "parts": [render_part(part) for part in PARTS],
        "rest": _rest_of_step(rank),
    }  # fmt: skip


def _icicle_item(line: TreeLine) -> list[Any]:
    parent = -1 if line.parent is None else line.parent
    if line.node is None:
        folded = [render_folded(line.folded), "", 0, 0, 0, 0, _nanoseconds(line.folded_s)]
        return [parent, *folded]
    node = line.node
    own = (node.forward_s, node.backward_s, node.update_s, node.idle_s)
    label, kind = clean_text(line.label), clean_text(node.class_name or "")
    if kind and label.isdecimal():  # a number alone says nothing: the block of a sequence
        label = f"{label} {kind}"
    return [parent, label, kind, *map(_nanoseconds, own)]


def _rest_of_step(rank: RankLayers) -> list[list[Any]]:
    """Parts, or shares of parts, that no module holds."""
    held: Mapping[str, Iterable[float]] = {
        "forward": (n.forward_s for n in rank.nodes),
        "backward": (n.backward_s for n in rank.nodes),
        "update": (n.update_s for n in rank.nodes),
        "idle: host": (n.idle_s for n in rank.nodes),
    }
    rest: list[list[Any]] = []
    for at, part in enumerate(PARTS):
        time_s = rank.parts.get(part, 0.0) - sum(held.get(part, ()))
        label = render_part(part) + (", of no layer" if part in held else "")
        if (length := _nanoseconds(time_s)) > len(rank.nodes):  # more than rounding explains
            rest.append([at, label, length, -1])
            if part == "python":
                _add_places(rest, rank, at)
    return rest


def _add_places(rest: list[list[Any]], rank: RankLayers, part: int) -> None:
    """Below the last entry: who it was, and below that where in the source."""
    whole = group = len(rest) - 1
    for row in host_rows(rank, groups=MOST_HOST, places=MOST_HOST, part="python"):
        length = _nanoseconds(row.between_s)
        if not row.place:
            group = len(rest)
        rest.append([part, row.label, length, group if row.place else whole])
    # Parents are exactly the sums of what is below them: what rounding leaves is the last one's.
    for at in range(len(rest) - 1, whole - 1, -1):
        below = [entry for entry in rest[at + 1 :] if entry[3] == at]
        if below:
            rest[at][2] = sum(entry[2] for entry in below)


def _nanoseconds(time_s: float) -> int:
    return max(round(time_s * NANOSECONDS), 0)
