"""The section "Where each step goes" of the HTML report: pieces of HTML from rows of text.

Draws what `analyse.attribution` found; plots are drawn by the page's script from its data.
"""

from collections.abc import Sequence

from trainload.analyse.attribution.types import LayerNode, RankLayers, RunLayers
from trainload.report.layers.host import HOST_TITLES, host_rows
from trainload.report.layers.plots import RankPlots
from trainload.report.layers.rows import (
    RANK_TITLES,
    LayerColumn,
    by_exclusive_time,
    layer_columns,
    rank_rows,
)
from trainload.report.layers.wording import (
    PARTS,
    has_several_roots,
    layer_name,
    ordered_parts,
    render_all_advice,
    render_cost,
    render_folded,
    render_head,
    render_method,
    render_part,
    render_sampling,
    render_utilisation,
    share_of,
)
from trainload.report.markup import escape, render_canvas, render_details, render_table
from trainload.report.run.plots import series_names
from trainload.report.run.view import RunView
from trainload.report.wording import clean_text, render_sentence
from trainload.units import render_percent, render_seconds

MOST_ROWS = 1500
"""Layers in the table of the first rank; the CSV holds all."""
MOST_ROWS_BESIDE = 100
"""Layers in the table of each further rank."""
MOST_HOST_GROUPS, MOST_HOST_PLACES = 20, 10
"""Of the host's time: groups, and places of each."""
NEXT_LEVEL = "— "
LEGEND_PARTS = ("forward", "backward", "update", "idle: host")


def render_layers_section(view: RunView) -> str:
    """The whole section; empty for a run without an attribution."""
    layers = view.layers
    if layers is None:
        return ""
    if not layers.ranks:
        nothing = '<p class="quiet">No step was traced.</p>'
        return f"<section><h3>Where each step goes</h3>{nothing}</section>"
    several = len(layers.ranks) > 1
    blocks = []
    for at, (rank, plot) in enumerate(zip(layers.ranks, view.plots.layers, strict=False)):
        most = MOST_ROWS if at == 0 else MOST_ROWS_BESIDE
        block = _render_rank(rank, plot, view, most)
        if several:
            state = " open" if at == 0 else ""
            title = escape(f"Rank {rank.rank}: {render_head(rank)}")
            block = f'<details class="rank"{state}><summary>{title}</summary>{block}</details>'
        blocks.append(block)
    left_out = len(layers.ranks) - len(blocks)
    more = f'<p class="quiet">{left_out} more ranks are in the table only.</p>' if left_out else ""
    head = "" if several else f'<p class="lead">{escape(render_head(layers.ranks[0]))}</p>'
    if layers.utilisation is not None:
        words = f"Utilisation (MFU): {render_utilisation(layers.utilisation)}"
        head += f'<p class="lead">{escape(words)}</p>'
    return (
        f'<section class="layers"><h3>Where each step goes</h3>{head}'
        f"{_render_advice(layers)}{_render_ranks(layers) if several else ''}"
        f"{''.join(blocks)}{more}</section>"
    )


def _render_advice(layers: RunLayers) -> str:
    sentences = render_all_advice(layers)
    if not sentences:
        return ""
    items = "".join(f"<li>{escape(render_sentence(text))}</li>" for text in sentences)
    return f'<div class="advice"><h4>What to do next</h4><ol>{items}</ol></div>'


def _render_ranks(layers: RunLayers) -> str:
    numbers = range(2, len(RANK_TITLES) - 1)
    table = render_table(RANK_TITLES, rank_rows(layers), label="Ranks", numbers=numbers)
    return (
        f"<h4>Ranks beside each other</h4>{table}"
        '<p class="quiet">Own work is the step without communication; hidden communication ran '
        "beside computing and cost no time of its own.</p>"
    )


def _render_rank(rank: RankLayers, plot: RankPlots, view: RunView, most_rows: int) -> str:
    anchor, drawn = view.anchor, view.plots.data["figures"]
    figures = "".join(
        f"<figure><h4>{escape(title)}</h4>"
        f"{render_canvas(title, f'{anchor}-plot-{at}', series_names(drawn[at]))}</figure>"
        for at, title in enumerate(plot.titles, start=plot.first_figure)
    )
    icicle = _render_icicle(rank, f"{anchor}-tree-{plot.tree}")
    return (
        f"{_render_parts(rank)}{_render_host(rank)}{icicle}"
        f'<div class="plots">{figures}</div>'
        f"{_render_layer_table(rank, most_rows)}{_render_notes(rank)}"
    )


def _render_parts(rank: RankLayers) -> str:
    """The step as one bar, explained against the remainder, with its parts as a key."""
    colours = {part: at for at, part in enumerate(PARTS)}
    pieces, keys = [], []
    for part, time_s in ordered_parts(rank.parts):
        share = share_of(time_s, rank) or 0.0
        colour = f"p{colours.get(part, len(colours) - 1)}"
        words = f"{render_part(part)}: {render_seconds(time_s)}, {render_percent(share)}"
        pieces.append(
            f'<span class="{colour}" style="flex-grow:{max(share, 0.0):.5f}" '
            f'title="{escape(words)}"></span>'
        )
        keys.append(
            f'<li><span class="piece {colour}"></span><span>{escape(render_part(part))}</span>'
            f"<b>{escape(render_percent(share))}</b><span>{escape(render_seconds(time_s))}</span></li>"
        )
    explained = min(max(rank.explained_fraction, 0.0), 1.0)
    label = (
        f"{render_percent(explained)} of {render_seconds(rank.step_s)} are explained; "
        "the list gives each part"
    )
    return (
        f'<div class="step"><h4>Parts of a step</h4>'
        f'<div class="share" role="img" aria-label="{escape(label)}">{"".join(pieces)}</div>'
        f'<div class="explained" aria-hidden="true"><span style="width:{explained * 100:.2f}%">'
        f"explained: {escape(render_percent(explained))} of {escape(render_seconds(rank.step_s))}"
        f'</span></div><ul class="parts">{"".join(keys)}</ul></div>'
    )


def _render_host(rank: RankLayers) -> str:
    """What the host does between operations; nothing where it was not sampled."""
    if not rank.host:
        return ""
    rows = [
        (f"{NEXT_LEVEL if row.place else ''}{row.label}", *row.cells(rank))
        for row in host_rows(rank, groups=MOST_HOST_GROUPS, places=MOST_HOST_PLACES)
    ]
    label = "What the host does between operations"
    table = render_table(HOST_TITLES, rows, label=label, numbers=range(1, len(HOST_TITLES)))
    return render_details(label, table)


def _render_icicle(rank: RankLayers, name: str) -> str:
    if not rank.nodes:
        return '<p class="quiet">No layer is known: the trace names no module.</p>'
    key = "".join(
        f'<li><span class="piece p{list(PARTS).index(part)}"></span>'
        f"{escape('idle: host' if part == 'idle: host' else render_part(part))}</li>"
        for part in LEGEND_PARTS
    )
    return (
        "<figure><h4>Layers of the model</h4>"
        '<p class="quiet">The step at the left, modules within modules to the right, each as high '
        "as its time and tinted by the phase that takes most of it; at the end the phases of a "
        "layer itself. Choose a module to look into it, its parent to come back.</p>"
        f'<ul class="key" aria-label="Colours of the phases">{key}</ul>'
        f'<div class="canvas icicle" id="{name}" role="img" '
        f'aria-label="Icicle of the module tree; the table below holds its figures"></div></figure>'
    )


def _render_layer_table(rank: RankLayers, most: int) -> str:
    if not rank.nodes:
        return ""
    nodes = by_exclusive_time(rank.nodes)
    columns = layer_columns(rank, whole=True)
    rooted = has_several_roots(nodes)
    titles = "".join(
        f'<th scope="col" class="number" aria-sort="none"><button type="button" data-sort="{at}">'
        f"{escape(column.title)}</button></th>"
        for at, column in enumerate(columns, start=1)
    )
    body = "".join(_render_layer_row(node, columns, rooted) for node in nodes[:most])
    more = ""
    if len(nodes) > most:
        rest = escape(render_folded(len(nodes) - most))
        more = f'<p class="quiet">{rest}, each shorter than these: trainload report --csv.</p>'
    table = (
        '<p class="quiet">Share, inclusive time and energy hold everything below a layer; the '
        "other columns hold the layer itself. A column's title sorts by it.</p>"
        '<div class="scroll tall" role="group" tabindex="0" aria-label="Layers and their cost">'
        '<table class="sortable"><thead><tr><th scope="col" aria-sort="none">'
        f'<button type="button" data-sort="0">layer</button></th>{titles}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{more}"
    )
    return render_details(f"All figures of {len(nodes):,} layers", table)


def _render_layer_row(node: LayerNode, columns: Sequence[LayerColumn], rooted: bool) -> str:
    cells = "".join(
        f"<td{_sort_value(column.value(node))}>{escape(column.render(node))}</td>"
        for column in columns
    )
    name = layer_name(node, rooted=rooted)
    kind = clean_text(node.class_name or "")
    beside = f" <small>{escape(kind)}</small>" if kind and kind != name else ""
    return f'<tr><th scope="row">{escape(name)}{beside}</th>{cells}</tr>'


def _sort_value(value: float | None) -> str:
    return "" if value is None else f' data-v="{value:.5g}"'


def _render_notes(rank: RankLayers) -> str:
    notes = (
        render_method(rank),
        render_sentence(f"tracing: {render_cost(rank.cost)}"),
        *filter(None, [render_sampling(rank.sampling)]),
        *rank.notes,
    )
    items = "".join(f"<li>{escape(render_sentence(clean_text(note)))}</li>" for note in notes)
    return f'<ul class="notes quiet">{items}</ul>'
