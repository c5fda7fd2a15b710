"""The attribution on a terminal, as rich renderables; the caller prints them.

Text of others enters as plain `Text`, so that no markup in it is obeyed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trainload.analyse.attribution.types import RankLayers, RunLayers
from trainload.report.layers.host import HOST_TITLES, host_rows
from trainload.report.layers.rows import RANK_TITLES, LayerColumn, layer_columns, rank_rows
from trainload.report.layers.tree import TreeLine, costliest_lines, with_totals
from trainload.report.layers.wording import (
    has_several_roots,
    layer_name,
    ordered_parts,
    render_all_advice,
    render_folded,
    render_head,
    render_method,
    render_part,
    render_sampling,
    render_utilisation,
    share_of,
)
from trainload.report.wording import clean_text
from trainload.units import render_percent, render_seconds

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table

DEFAULT_TOP = 15
BAR_CELLS = 30
LONGEST_NAME = 60
"""Cells of a layer's name; of a longer one the beginning is shown."""
ROOM_FOR_EXTRAS = 130
"""Cells; in a narrower terminal the columns of memory and energy are left out."""
ROOM_FOR_INCLUSIVE = 96
ROOM_FOR_RANKS = 120
TOTALS = "figures of a layer are with all below it; … stands for the layers not shown"
_MINOR_TITLES = ("device", "hidden", "explained")
_EIGHTHS = " ▏▎▍▌▋▊▉"
_PART_STYLES = {
    "forward": "blue", "backward": "dark_orange", "update": "green", "loss": "magenta",
    "input": "yellow", "copy": "cyan", "communication": "red", "remainder": "dim",
}  # fmt: skip


def render_layers(layers: RunLayers, *, top: int = DEFAULT_TOP, rank: int = 0) -> RenderableType:
    """Where each step goes: head, parts, the `top` costliest layers of a rank, what to do next.

    A rank that the run does not have gives way to the first one.
    """
    from rich.console import Group
    from rich.text import Text

    if not layers.ranks:
        return Text("where each step goes: no step was traced", "dim")
    shown = next((r for r in layers.ranks if r.rank == rank), layers.ranks[0])
    parts: list[RenderableType] = [
        Text.assemble(("where each step goes", "bold"), f"  {render_head(shown)}"),
    ]
    if layers.utilisation is not None:
        parts.append(Text(f"utilisation (MFU)  {render_utilisation(layers.utilisation)}"))
    parts.append(Text())
    if len(layers.ranks) > 1:
        parts += [_RankTable(layers), Text(), Text(f"rank {shown.rank}", "bold")]
    parts += [_part_table(shown), Text()]
    if shown.host:
        parts += [_host_table(shown), Text()]
    if shown.nodes:
        parts += [_LayerTree(shown, top), Text()]
    else:
        parts += [Text("no layer is known: the trace names no module", "dim"), Text()]
    advice = render_all_advice(layers)
    if advice:
        parts.append(Text("what to do next", "bold"))
        parts += [Text(f"{at}. {sentence}") for at, sentence in enumerate(advice, start=1)]
        parts.append(Text())
    parts.append(Text(render_method(shown), "dim"))
    if (sampled := render_sampling(shown.sampling)) is not None:
        parts.append(Text(sampled, "dim"))
    parts += [Text(f"note: {clean_text(note)}", "dim") for note in shown.notes]
    return Group(*parts)


def render_bar(fraction: float, cells: int) -> str:
    """A bar of blocks, an eighth of a cell fine; something that is there is never empty."""
    eighths = round(min(max(fraction, 0.0), 1.0) * cells * 8)
    if fraction > 0:
        eighths = max(eighths, 1)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def _part_table(rank: RankLayers) -> Table:
    from rich.text import Text

    table = _table(("part of the step", "time", "share", ""), first_right=1, last_right=2)
    widest = max(rank.parts.values(), default=0.0)
    for part, time_s in ordered_parts(rank.parts):
        table.add_row(
            Text(render_part(part)),
            Text(render_seconds(time_s)),
            Text(render_percent(share_of(time_s, rank))),
            Text(
                render_bar(time_s / widest if widest > 0 else 0.0, BAR_CELLS),
                _PART_STYLES.get(part, ""),
            ),
        )
    return table


def _host_table(rank: RankLayers) -> Table:
    """What the host does between operations."""
    from rich.text import Text

    table = _table(HOST_TITLES, first_right=1, last_right=len(HOST_TITLES) - 1)
    table.columns[0].overflow = "ellipsis"
    for row in host_rows(rank):
        style = "dim" if row.place else ""
        label = f"  {_short(row.label)}" if row.place else row.label
        table.add_row(Text(label, style), *(Text(cell, style) for cell in row.cells(rank)))
    return table


class _RankTable:
    """The processes beside each other, as wide as there is room."""

    def __init__(self, layers: RunLayers) -> None:
        self._layers = layers

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        wide = options.max_width >= ROOM_FOR_RANKS
        shown = [at for at, title in enumerate(RANK_TITLES) if wide or title not in _MINOR_TITLES]
        titles = [RANK_TITLES[at] for at in shown]
        table = _table(titles, first_right=1, last_right=len(titles) - 2)
        for row in rank_rows(self._layers):
            style = "bold yellow" if row[-1] == "straggler" else ""
            table.add_row(*(Text(row[at], style) for at in shown))
        yield table


class _LayerTree:
    """The tree as a table; how many columns it has depends on the room it gets."""

    def __init__(self, rank: RankLayers, top: int) -> None:
        self._rank = rank
        self._lines = costliest_lines(rank.nodes, top, containers=True)
        # By identity: two modules of a stranger's trace may share their path.
        whole = with_totals(rank.nodes)
        self._totals = {id(own): total for own, total in zip(rank.nodes, whole, strict=True)}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        every = layer_columns(self._rank, whole=False)
        columns = [c for c in every if not c.extra or options.max_width >= ROOM_FOR_EXTRAS]
        if options.max_width < ROOM_FOR_INCLUSIVE:
            columns = [c for c in columns if c.title != "inclusive"]
        yield self._table(columns)
        yield Text(TOTALS, "dim")
        hidden = [c.title for c in every if c.extra and c not in columns]
        if hidden:
            yield Text(f"a wider terminal, the report and --json show {', '.join(hidden)}", "dim")

    def plain_lines(self) -> Iterator[str]:
        """One line a layer with its full path, for screen readers."""
        columns = layer_columns(self._rank, whole=False)
        rooted = has_several_roots(self._rank.nodes)
        for line in self._lines:
            if line.node is not None:
                node = self._totals[id(line.node)]
                told = ", ".join(f"{_title(c)} {c.render(node)}" for c in columns)
                yield f"{layer_name(line.node, rooted=rooted)}: {told}"
        yield TOTALS

    def _table(self, columns: Sequence[LayerColumn]) -> Table:
        from rich.text import Text

        titles = ("layer", *map(_title, columns))
        table = _table(titles, first_right=1, last_right=len(columns))
        table.columns[0].overflow = "ellipsis"
        table.columns[0].no_wrap = True
        for at, line in enumerate(self._lines):
            guide = (_guide(self._lines, at), "dim")
            if line.node is None:
                folded = render_folded(line.folded)
                share = render_percent(share_of(line.folded_s, self._rank))
                inclusive = render_seconds(line.folded_s)
                cells = {"share": share, "inclusive": inclusive}
                table.add_row(
                    Text.assemble(guide, (folded, "dim")),
                    *(Text(cells.get(c.title, ""), "dim") for c in columns),
                )
                continue
            node = self._totals[id(line.node)]
            kind = f" {clean_text(line.node.class_name)}" if line.node.class_name else ""
            if clean_text(line.label) == kind.strip():
                kind = ""
            table.add_row(
                Text.assemble(guide, _short(clean_text(line.label)), (kind, "dim")),
                *(Text(c.render(node), "" if c.value(node) else "dim") for c in columns),
            )
        return table


def _title(column: LayerColumn) -> str:
    return "total" if column.title == "inclusive" else column.title


def _short(label: str) -> str:
    """The name, cut at LONGEST_NAME cells."""
    return label if len(label) <= LONGEST_NAME else f"{label[: LONGEST_NAME - 1]}…"


def _guide(lines: Sequence[TreeLine], at: int) -> str:
    """The strokes before a line that lead to its parent."""
    strokes: list[str] = []
    line = lines[at]
    place: int | None = at
    while place is not None and line.parent is not None:
        last = not _has_later_sibling(lines, place)
        if place == at:
            strokes.append("└ " if last else "├ ")
        else:
            strokes.append("  " if last else "│ ")
        place = line.parent
        line = lines[place]
    return "".join(reversed(strokes))


def _has_later_sibling(lines: Sequence[TreeLine], at: int) -> bool:
    depth = lines[at].depth
    for later in lines[at + 1 :]:
        if later.depth < depth:
            return False
        if later.depth == depth:
            return True
    return False


def _table(titles: Sequence[str], *, first_right: int, last_right: int) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for at, title in enumerate(titles):
        right = first_right <= at <= last_right
        table.add_column(title, justify="right" if right else "left", overflow="fold")
    return table
