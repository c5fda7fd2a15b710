"""A small chart of lines in braille dots, for a terminal; draws points and knows no run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

COLOURS = ("#4aa8ff", "#ffb454", "#7fd962", "#d2a6ff")
LIMIT_COLOUR = "#ff6b6b"
_LABEL_CELLS = 10
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BLANK = 0x2800

Points = Sequence[tuple[float, float]]
Row = list[tuple[str, str | None]]
"""Pieces of one line of text with their colours; None for that of labels."""


class _Canvas:
    """Dots, two across and four down in each cell; a cell has the colour of its last dot."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._bits = [[0] * width for _ in range(height)]
        self._colours: list[list[str | None]] = [[None] * width for _ in range(height)]

    def dot(self, x: int, y: int, colour: str) -> None:
        if 0 <= x < 2 * self.width and 0 <= y < 4 * self.height:
            row, column = y // 4, x // 2
            self._bits[row][column] |= _BITS[y % 4][x % 2]
            self._colours[row][column] = colour

    def line(self, x0: int, y0: int, x1: int, y1: int, colour: str) -> None:
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for at in range(steps + 1):
            share = at / steps
            self.dot(round(x0 + share * (x1 - x0)), round(y0 + share * (y1 - y0)), colour)

    def row(self, number: int) -> Row:
        cells = zip(self._bits[number], self._colours[number], strict=True)
        return [
            ("".join(chr(_BLANK + bits) if bits else " " for bits, _ in piece), colour)
            for colour, piece in groupby(cells, key=lambda cell: cell[1])
        ]


def render_chart(
    lines: Sequence[Points],
    size: tuple[int, int],
    *,
    render: Callable[[float], str],
    top: float | None = None,
    limits: Sequence[float] = (),
) -> list[Row]:
    """Lines over a common time axis, in so many columns and rows; empty where there is no room.

    The axis begins at 0 where the values are near it or `top` says where it ends. A limit is drawn
    where it lies within the axis.
    """
    width, height = size[0] - _LABEL_CELLS, size[1]
    points = [point for line in lines for point in line]
    if width < 4 or height < 2 or not points:
        return []
    low, high = axis_range([value for _, value in points], top, limits)
    first_s, last_s = min(t for t, _ in points), max(t for t, _ in points)
    canvas = _Canvas(width, height)

    def across(t_s: float) -> int:
        return round((t_s - first_s) / max(last_s - first_s, 1e-9) * (2 * width - 1))

    def down(value: float) -> int:
        return round((high - value) / (high - low) * (4 * height - 1))

    for limit in limits:
        for x in range(0, 2 * width, 3):
            canvas.dot(x, down(limit), LIMIT_COLOUR)
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        previous: tuple[int, int] | None = None
        for t_s, value in line:
            here = across(t_s), down(value)
            canvas.line(*(previous or here), *here, colour)
            previous = here
    return _with_labels(canvas, render(high), render(low))


def axis_range(
    values: Sequence[float], top: float | None, limits: Sequence[float]
) -> tuple[float, float]:
    """Lowest and highest of an axis: from 0 where values are near it, up to a limit not far off."""
    low, high = min(values), max(values)
    high = max(high, top) if top is not None else high
    near = [limit for limit in limits if limit <= 4 * high]
    high = max([high, *near])
    if top is not None or (low > 0 and low < 0.5 * high):
        low = min(low, 0.0)
    if high <= low:
        spread = abs(high) * 0.1 or 1.0
        return low - spread, high + spread
    return low, high


def _with_labels(canvas: _Canvas, highest: str, lowest: str) -> list[Row]:
    rows: list[Row] = []
    for number in range(canvas.height):
        label = highest if number == 0 else lowest if number == canvas.height - 1 else ""
        rows.append(
            [(f"{label[: _LABEL_CELLS - 1]:>{_LABEL_CELLS - 1}} ", None), *canvas.row(number)]
        )
    return rows
