"""One self-contained page about whether a training fits: verdict, why, what would help.

Draws what `estimate` found; the curve is drawn by the page's script from its data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from trainload.estimate.memory.answer import Alternative, MemoryAnswer
from trainload.estimate.memory.fit import MemoryEstimate, Span
from trainload.estimate.memory.replay import CATEGORIES, CurvePoint, thin_curve
from trainload.report.markup import escape, render_details, render_frame
from trainload.report.memory.wording import (
    NO_LAYER,
    SPANS,
    all_notes,
    group_layers,
    render_between,
    render_chance,
    render_gain,
    render_operation,
    render_part,
    render_peak_place,
    render_reason,
)
from trainload.report.page import THEME, render_controls, render_page
from trainload.report.wording import render_sentence
from trainload.units import render_bytes, render_percent

MOST_POINTS = 1500
MOST_LAYERS = 12
FRAME_HEIGHT_PX = 600
_KINDS = {"fits": "good", "does not fit": "bad", "too close to call": "close"}
_ANSWERS = {"fits": "yes", "does not fit": "no"}
_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def render_memory_html(answer: MemoryAnswer, head: str) -> str:
    """The page as text; MissingPart where plotly is not installed."""
    return _render(answer, head, scripts=("memory.js",))


def render_memory_frame(answer: MemoryAnswer, head: str) -> str:
    """The page without its curve, for a notebook: a frame that runs no script."""
    return render_frame(_render(answer, head, scripts=()), _title(answer), FRAME_HEIGHT_PX)


def _render(answer: MemoryAnswer, head: str, *, scripts: Sequence[str]) -> str:
    drawn = bool(scripts)
    controls = render_controls("How the page looks", (THEME,)) if drawn else ""
    return render_page(
        title=_title(answer),
        skip="Skip to the answer",
        top=f'<header class="top"><h1>{escape(head)}</h1></header>{controls}',
        sections=[section(answer) for section in (_SECTIONS if drawn else _UNDRAWN)],
        footer="Made by trainload. An estimate: the step was traced on tensors without numbers and "
        "replayed through a simulation of torch's allocator; nothing was run.",
        data=_curve(answer),
        styles=("report.css", "memory.css"),
        scripts=scripts,
    )


def _title(answer: MemoryAnswer) -> str:
    verdict = answer.estimate.verdict if answer.estimate is not None else "not known"
    return f"{answer.title}: {verdict}"


def _render_verdict(answer: MemoryAnswer) -> str:
    estimate = answer.estimate
    if estimate is None:
        said = render_reason(answer) or answer.missing or "nothing was traced"
        ram = answer.ram
        title = "Not known" if ram is None else render_bytes(ram.growth_bytes.value_bytes)
        return (
            f'<section class="verdict"><h2>{escape(title)}</h2>'
            f"<p>{escape(render_sentence(said))}</p></section>"
        )
    words = estimate.verdict if answer.device is not None else "No device is named"
    return (
        f'<section class="verdict {_KINDS.get(estimate.verdict, "")}">'
        f"<h2>{escape(words[:1].upper() + words[1:])}</h2>"
        f"<p>{escape(render_sentence(render_reason(answer)))}</p>{_render_gauge(estimate)}</section>"
    )


def _render_gauge(estimate: MemoryEstimate) -> str:
    """Need with its range against the capacity, on one scale."""
    capacity, needed = estimate.room.capacity, estimate.needed_bytes
    if capacity is None:
        return ""
    whole = max(capacity.value_bytes, needed.high_bytes) * 1.04

    def place(size: int) -> str:
        return f"{min(size / whole, 1) * 100:.2f}%"

    width = f"{(needed.high_bytes - needed.low_bytes) / whole * 100:.2f}%"
    between = render_between(needed)
    words = f"{between} needed, {render_bytes(capacity.value_bytes)} offered"
    return (
        f'<div class="gauge" role="img" aria-label="{escape(words)}">'
        f'<span class="need" style="width:{place(needed.value_bytes)}"></span>'
        f'<span class="range" style="left:{place(needed.low_bytes)};width:{width}"></span>'
        f'<span class="limit" style="left:{place(capacity.value_bytes)}"></span></div>'
        f'<div class="scale"><span>needed: {escape(between)} in 19 of 20 cases</span>'
        f"<span>offered: {escape(_offered(capacity))}</span></div>"
    )


def _offered(span: Span) -> str:
    if span.low_bytes == span.high_bytes:
        return render_bytes(span.value_bytes)
    return f"{render_bytes(span.value_bytes)} ({render_between(span)})"


def _render_why(answer: MemoryAnswer, *, drawn: bool = True) -> str:
    estimate = answer.estimate
    if estimate is None:
        return ""
    cards = "".join(
        f"<div><dt>{escape(title[:1].upper() + title[1:])}</dt>"
        f"<dd>{escape(render_bytes(span.value_bytes))}<small>{escape(render_between(span))}; "
        f"{escape(words)}</small></dd></div>"
        for title, words, span in (
            (title, words, getattr(estimate, name)) for name, title, words in SPANS
        )
    )
    return (
        f'<section><h3>Why</h3><dl class="cards">{cards}</dl>'
        f"{_render_parts(estimate)}{_render_curve(estimate) if drawn else ''}"
        f"{_render_layers(estimate)}</section>"
    )


def _render_parts(estimate: MemoryEstimate) -> str:
    """The peak as one bar with its parts as a key."""
    peak = estimate.peak
    total = max(peak.total_bytes, 1)
    pieces, keys = [], []
    for at, name in enumerate(CATEGORIES):
        size = peak.by_category[name]
        if not size:
            continue
        share = size / total
        label, amount = render_part(name), render_bytes(size)
        pieces.append(
            f'<span class="p{at}" style="flex-grow:{share:.5f}" '
            f'title="{escape(f"{label}: {amount}, {render_percent(share)}")}"></span>'
        )
        keys.append(
            f'<li><span class="piece p{at}"></span><span>{escape(label)}</span>'
            f"<b>{escape(render_percent(share))}</b><span>{escape(amount)}</span></li>"
        )
    where = render_peak_place(estimate)
    return (
        f'<div class="peak"><h4>What is held at the fullest moment: '
        f"{escape(render_bytes(peak.total_bytes))}</h4>"
        f'<p class="quiet">{escape(render_sentence(where))}</p>'
        f'<div class="share" role="img" aria-label="Parts of the peak; the list gives each">'
        f'{"".join(pieces)}</div><ul class="parts">{"".join(keys)}</ul></div>'
    )


def _render_curve(estimate: MemoryEstimate) -> str:
    if not estimate.curve:
        return ""
    return (
        "<figure><h4>Memory over one step</h4>"
        '<ul class="key" aria-label="Lines"><li><span class="swatch s0"></span>held by tensors and '
        'workspaces</li><li><span class="swatch s4"></span>reserved by the allocator</li></ul>'
        '<div class="canvas curve" id="curve" role="img" '
        'aria-label="Memory held and reserved after each operation of one step"></div></figure>'
    )


def _render_layers(estimate: MemoryEstimate) -> str:
    sizes = estimate.peak.activations_by_layer
    if not sizes:
        return ""
    groups = group_layers(sizes)
    blocks = _render_bars("Activations at the peak, by part of the model", groups)
    layers = _render_bars("Largest activations, by layer", sizes)
    return blocks + (render_details(f"By layer, the largest of {len(sizes):,}", layers)
                     if groups else layers)  # fmt: skip


def _render_bars(title: str, sizes: Mapping[str, int]) -> str:
    if not sizes:
        return ""
    largest = max(sizes.values()) or 1
    items = "".join(
        f"<li><span>{escape(name or NO_LAYER)}</span>"
        f'<div class="track"><div class="bar" style="width:{size / largest:.2%}"></div></div>'
        f"<span>{escape(render_bytes(size))}</span></li>"
        for name, size in list(sizes.items())[:MOST_LAYERS]
    )
    more = len(sizes) - MOST_LAYERS
    rest = f'<p class="quiet">{more:,} smaller ones are left out.</p>' if more > 0 else ""
    return f'<h4>{escape(title)}</h4><ul class="bars">{items}</ul>{rest}'


def _render_help(answer: MemoryAnswer) -> str:
    largest = answer.largest_batch
    if not answer.alternatives and largest is None:
        return ""
    said = ""
    if largest is not None:
        size = "none" if largest.batch_size is None else f"{largest.batch_size:,}"
        said = (
            f'<p class="largest">Largest batch that fits: <b>{escape(size)}</b> '
            f'<span class="quiet">({escape(largest.note)})</span></p>'
        )
    rows = "".join(_render_alternative(one) for one in answer.alternatives)
    titles = ("change", "then", "needs", "less by", "how")
    head = "".join(f'<th scope="col"{_number(at)}>{title}</th>' for at, title in enumerate(titles))
    table = (
        '<div class="scroll" role="group" tabindex="0" aria-label="What would help">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
    return f"<section><h3>What would help</h3>{said}{table if rows else ''}</section>"


def _number(at: int) -> str:
    return ' class="number"' if at in (2, 3) else ""


def _render_alternative(one: Alternative) -> str:
    kind = _ANSWERS.get(one.verdict, "perhaps")
    chance = f", {render_chance(one.running_out)}" if kind == "perhaps" and one.running_out else ""
    how = "; ".join(text for text in (one.option, one.note) if text)
    return (
        f'<tr><th scope="row">{escape(one.name)}</th>'
        f'<td class="{kind}">{escape(one.verdict + chance)}</td>'
        f'<td class="number">{escape(render_bytes(one.needed_bytes))}</td>'
        f'<td class="number">{escape(render_gain(one.gain_bytes))}</td>'
        f'<td class="words">{escape(how)}</td></tr>'
    )


def _render_notes(answer: MemoryAnswer) -> str:
    notes = list(all_notes(answer))
    if answer.estimate is not None:
        room = answer.estimate.room
        notes.append(f"ranges: {room.spread.source}")
        context = render_between(room.overhead)
        notes.append(f"context of the process, {context}: {room.overhead_source}")
        if room.capacity_source is not None:
            notes.append(f"what the device offers: {room.capacity_source}")
    items = "".join(f"<li>{escape(render_sentence(note))}</li>" for note in notes)
    return f'<section><h3>Taken for granted</h3><ul class="notes quiet">{items}</ul></section>'


def _curve(answer: MemoryAnswer) -> dict[str, Any]:
    """What the script draws, in the unit of its axis."""
    estimate = answer.estimate
    if estimate is None or not estimate.curve:
        return {"held": [], "reserved": [], "words": [], "phases": [], "unit": "", "limit": None}
    points = thin_curve(estimate.curve, MOST_POINTS)
    top = max(point.reserved_bytes for point in points)
    unit, worth = next(((u, w) for u, w in _UNITS if top >= w), ("bytes", 1))
    capacity = estimate.room.capacity
    room = None if capacity is None else capacity.value_bytes - estimate.room.overhead.value_bytes
    # A limit far above everything would press the curve flat.
    drawn = room is not None and 0 < room <= 3 * top
    return {
        "held": [float(f"{point.peak_bytes / worth:.5g}") for point in points],
        "reserved": [float(f"{point.reserved_bytes / worth:.5g}") for point in points],
        "words": [_words(point) for point in points],
        "phases": _phases(points),
        "unit": unit,
        "limit": room / worth if drawn and room is not None else None,
        "limit_words": "" if room is None else f"{render_bytes(room)} left for the allocator",
    }


def _words(point: CurvePoint) -> str:
    layer = f" of layer {point.layer}" if point.layer else ""
    return f"{render_operation(point.operation)}{layer}"


def _phases(points: Sequence[CurvePoint]) -> list[tuple[str, int, int]]:
    """Stretches of one phase, as wide as at least a fiftieth of the step."""
    found: list[tuple[str, int, int]] = []
    for at, point in enumerate(points, start=1):
        if found and found[-1][0] == point.phase:
            found[-1] = point.phase, found[-1][1], at + 1
        else:
            found.append((point.phase, at, at + 1))
    return [
        (phase, start, end)
        for phase, start, end in found
        if phase in ("forward", "backward", "update") and end - start >= len(points) / 50
    ]


_SECTIONS: tuple[Callable[[MemoryAnswer], str], ...]
_SECTIONS = (_render_verdict, _render_why, _render_help, _render_notes)
_UNDRAWN = (_render_verdict, partial(_render_why, drawn=False), _render_help, _render_notes)
"""Where no script draws the curve."""
"""Each gives its HTML, or nothing where the answer has nothing for it."""
