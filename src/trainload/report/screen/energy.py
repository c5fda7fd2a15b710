"""The energy of a run by source and by layer, and the money it cost; draws, never computes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trainload.analyse import RunSummary
from trainload.analyse.attribution.types import LayerNode, RunLayers
from trainload.report.layers.wording import has_several_roots, layer_name, render_joules
from trainload.report.run.rows import render_source_energy
from trainload.report.run.terminal import table_of
from trainload.report.wording import clean_text
from trainload.units import render_value

if TYPE_CHECKING:
    from rich.console import RenderableType

_SOURCES = (
    (re.compile(r"gpu(\d+)"), "GPU {}"),
    (re.compile(r"rapl_(\w+)"), "the processor's {}"),
    (re.compile(r"tegra_rail_(\w+)"), "the board's rail {}"),
    (re.compile(r"tegra"), "the board"),
)


def source_words(source: str) -> str:
    """A source of energy in words: `gpu0` is GPU 0."""
    for pattern, words in _SOURCES:
        if found := pattern.fullmatch(source):
            return clean_text(words.format(*(part.replace("_", " ") for part in found.groups())))
    return clean_text(source)


def render_energy_view(
    summary: RunSummary,
    layers: RunLayers | None,
    *,
    money: str,
    top: int,
    rank: int = 0,
) -> RenderableType:
    """Joules and watts of every source, of the `top` layers that take the most, and money.

    `money` says what the run cost, or why that is not known.
    """
    from rich.console import Group
    from rich.text import Text

    rows = [
        (
            source_words(source.source),
            render_source_energy(source, summary),
            render_value("power_w", source.mean_power_w),
            "power, added up over time" if source.column.endswith("_power_w") else "counter",
        )
        for source in summary.energy
    ]
    parts: list[RenderableType] = []
    if rows:
        titles = (f"energy over {summary.covered}", "energy", "mean power", "read from")
        parts.append(table_of(titles, rows))
    else:
        parts.append(Text("energy: not measured; trainload doctor says what would help"))
    nodes = _costly(layers, top, rank)
    if nodes:
        rooted = has_several_roots(nodes)
        cells = [(layer_name(node, rooted=rooted), render_joules(node.energy)) for node in nodes]
        layered = ("energy of a step by layer", "with all below it")
        parts += [Text(), table_of(layered, cells, last_right=True)]
    return Group(*parts, Text(), Text(f"money: {money}"))


def _costly(layers: RunLayers | None, top: int, rank: int) -> list[LayerNode]:
    """The layers that take the most; empty where no meter tells a layer's energy."""
    if layers is None or not layers.ranks:
        return []
    shown = next((one for one in layers.ranks if one.rank == rank), layers.ranks[0])
    known = [(node.energy.energy_j, node) for node in shown.nodes if node.energy is not None]
    known.sort(key=lambda pair: -pair[0])
    return [node for _, node in known[:top]]
