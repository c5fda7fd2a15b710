"""The first screen laid out for a width, within a number of lines; nothing is wrapped afterwards.

Knows no run: takes the values of `content`. Text of others is clean already.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainload.report.screen.bar import FILLS, Share, bar_cells
from trainload.report.screen.content import Screen
from trainload.units import render_percent

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

MOST_LINES = 24
WIDEST = 120
NARROW = 60
"""Cells; below, more lines are taken: a text cut to fit would say nothing."""
NARROW_LINES = 48
_LABEL = 13
_INDENT = "  "
_HARD_SPACE = "\u00a0"
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|(?:[nµmk]?s|min|[KMGT]iB|k?J|W|Wh|USD)\b)")

Span = tuple[str, str]
"""Text and its style."""
Line = tuple[Span, ...]


@dataclass(frozen=True, kw_only=True)
class _Room:
    """How generous a layout is."""

    cost_lines: int
    """Of one figure's words, before they are cut."""
    advice_lines: int
    text_lines: int
    """Of a reason or a warning."""
    warnings: int
    legend_lines: int = 3


_ROOMS = (
    _Room(cost_lines=6, advice_lines=6, text_lines=6, warnings=4),
    _Room(cost_lines=3, advice_lines=3, text_lines=3, warnings=3),
    _Room(cost_lines=2, advice_lines=2, text_lines=2, warnings=2),
    _Room(cost_lines=1, advice_lines=2, text_lines=2, warnings=1),
    _Room(cost_lines=1, advice_lines=2, text_lines=1, warnings=1, legend_lines=2),
    _Room(cost_lines=1, advice_lines=1, text_lines=1, warnings=1, legend_lines=2),
    _Room(cost_lines=1, advice_lines=1, text_lines=1, warnings=1, legend_lines=1),
)
"""The first that fits is taken, the last if none does."""


class ScreenView:
    """A screen as a rich renderable: as wide as there is room, never above its lines."""

    def __init__(self, screen: Screen, lines: int = MOST_LINES) -> None:
        self._screen = screen
        self._lines = lines

    def plain_lines(self) -> list[str]:
        """As `name: value`, for screen readers."""
        return plain_lines(self._screen)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        for line in lay_out(self._screen, options.max_width, self._lines):
            yield Text.assemble(*line, no_wrap=True, overflow="crop")


def lay_out(screen: Screen, width: int, lines: int = MOST_LINES) -> list[Line]:
    """The lines of a screen, each at most `width` cells; on a narrow terminal there are more."""
    width = max(min(width, WIDEST), 20)
    most = lines if width >= NARROW else NARROW_LINES
    sections: list[list[Line]] = []
    for room in _ROOMS:
        sections = [found for found in map(list, _sections(screen, width, room)) if found]
        if sum(map(len, sections)) <= most:
            break
    return _spaced(sections, most)


def _spaced(sections: Sequence[list[Line]], most: int) -> list[Line]:
    """The sections below each other, an empty line between them as far as there is room.

    Titles begin most of them, so that where room is short the first gaps count most.
    """
    spare = max(most - sum(map(len, sections)), 0)
    found: list[Line] = []
    for at, section in enumerate(sections):
        if 0 < at <= spare:
            found.append(())
        found += section
    return found


def plain_lines(screen: Screen) -> list[str]:
    """The same as `name: value` lines without bars or columns, for screen readers."""
    told = [f"outcome: {screen.outcome}", f"run: {screen.title}", f"name: {screen.run_id}"]
    if screen.reason:
        told.append(f"reason: {screen.reason}")
    told += [f"warning: {text}" for text in screen.warnings]
    told += [f"{label}: {text}" if label else text for label, text in screen.costs]
    if screen.bar_title:
        listed = ", ".join(f"{s.words} {_percent(s)}" for s in screen.shares)
        told.append(f"{screen.bar_title}: {listed}")
    if screen.hint:
        told.append(screen.hint)
    told += [
        f"costly layer {at}: {layer.path}{f', a {layer.kind}' if layer.kind else ''}, "
        f"{layer.share} of the step, {layer.time}"
        for at, layer in enumerate(screen.layers, start=1)
    ]
    told += [f"advice {at}: {text}" for at, text in enumerate(screen.advice, start=1)]
    return [*told, screen.more] if screen.more else told


def _sections(screen: Screen, width: int, room: _Room) -> Iterator[Iterator[Line]]:
    yield _head(screen, width, room)
    yield (line for label, text in screen.costs for line in _labelled(label, text, width, room))
    yield _where(screen, width, room)
    yield _layers(screen, width)
    yield _advice(screen, width, room)
    yield iter([((_cut(screen.more, width), "dim"),)] if screen.more else [])


def _where(screen: Screen, width: int, room: _Room) -> Iterator[Line]:
    if screen.bar_title:
        yield (_title(screen.bar_title, width),)
        yield from _bar(screen.shares, width, room)
    if screen.hint:
        yield from _paragraph(screen.hint, width, 2, "dim")


def _advice(screen: Screen, width: int, room: _Room) -> Iterator[Line]:
    if screen.advice:
        yield (_title("what to do next", width),)
    for at, text in enumerate(screen.advice, start=1):
        yield from _hanging(f"{at}. ", text, width, room.advice_lines)


def _head(screen: Screen, width: int, room: _Room) -> Iterator[Line]:
    style = "bold green" if screen.good else "bold red"
    if len(screen.outcome) + 2 + len(screen.title) <= width:
        yield (screen.outcome, style), ("  ", ""), (screen.title, "bold")
    else:
        yield ((_cut(screen.outcome, width), style),)
        yield ((_cut(screen.title, width), "bold"),)
    yield ((_cut(screen.run_id, width), "dim"),)
    if screen.reason:
        yield from _paragraph(screen.reason, width, room.text_lines, "")
    shown = screen.warnings[: room.warnings]
    for text in shown:
        yield from _paragraph(f"warning: {text}", width, room.text_lines, "yellow")
    hidden = len(screen.warnings) - len(shown)
    if hidden:
        yield (
            (_cut(f"{hidden} more warning{'' if hidden == 1 else 's'}: --all", width), "yellow"),
        )


def _labelled(label: str, text: str, width: int, room: _Room) -> Iterator[Line]:
    """A label in a column of its own; above its text where the terminal is narrow."""
    if width < NARROW or len(label) >= _LABEL:
        words = f"{label}: {text}" if label else text
        yield from _paragraph(words, width, room.cost_lines, "")
        return
    first, *rest = _wrap(text, width - _LABEL, room.cost_lines)
    yield (label.ljust(_LABEL), "dim"), (first, "")
    for line in rest:
        yield ((" " * _LABEL + line, ""),)


def _bar(shares: Sequence[Share], width: int, room: _Room) -> Iterator[Line]:
    cells = bar_cells(shares, width)
    yield tuple(
        (FILLS[at % len(FILLS)] * count, share.style)
        for at, (share, count) in enumerate(zip(shares, cells, strict=True))
    )
    lines: list[list[Span]] = [[]]
    used = 0
    for at, share in enumerate(shares):
        words = f" {share.words} {_percent(share)}"
        size = 1 + len(words) + (2 if lines[-1] else 0)
        if used + size > width and lines[-1]:
            lines.append([])
            used, size = 0, size - 2
        gap: Iterable[Span] = [("  ", "")] if lines[-1] else []
        lines[-1] += [*gap, (FILLS[at % len(FILLS)], share.style), (_cut(words, width - 1), "")]
        used += size
    yield from (tuple(line) for line in lines[: room.legend_lines])


def _layers(screen: Screen, width: int) -> Iterator[Line]:
    layers = screen.layers
    if not screen.layers_title or not layers:
        return
    yield (_title(screen.layers_title, width),)
    share_cells = max(len(layer.share) for layer in layers)
    time_cells = max(len(layer.time) for layer in layers)
    for layer in layers:
        figures = f"{_INDENT}{layer.share:>{share_cells}}  {layer.time:>{time_cells}}  "
        left = width - len(figures)
        path = _shortened(layer.path, max(left, 8))
        kind = f" {layer.kind}" if layer.kind and layer.kind != layer.path else ""
        if len(path) + len(kind) > left:
            kind = ""
        yield (figures, ""), (path, "bold"), (kind, "dim")


def _title(text: str, width: int) -> Span:
    return _cut(text, width), "bold"


def _paragraph(text: str, width: int, most: int, style: str) -> Iterator[Line]:
    for line in _wrap(text, width, most):
        yield ((line, style),)


def _hanging(mark: str, text: str, width: int, most: int) -> Iterator[Line]:
    for at, line in enumerate(_wrap(text, width - len(mark), most)):
        yield ((f"{mark if at == 0 else ' ' * len(mark)}{line}", ""),)


def _wrap(text: str, width: int, most: int) -> list[str]:
    """At most so many lines, a figure beside its unit; what is cut ends in an ellipsis."""
    joined = _BEFORE_UNIT.sub(_HARD_SPACE, text)
    lines = textwrap.wrap(joined, max(width, 10), max_lines=most, placeholder=" …")
    return [line.replace(_HARD_SPACE, " ") for line in lines] or [""]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(width - 1, 0)]}…"


def _shortened(path: str, width: int) -> str:
    """A path that does not fit loses its middle: model and layer are at its ends."""
    if len(path) <= width:
        return path
    head = (width - 1) // 3
    return f"{path[:head]}…{path[len(path) - (width - 1 - head) :]}"


def _percent(share: Share) -> str:
    return render_percent(share.fraction, 0) if share.fraction >= 0.005 else "under 1 %"
