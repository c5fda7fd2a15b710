"""Small pieces of HTML; everything that enters as text is escaped here, and nowhere else."""

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainload.report.wording import clean_text

COLOURS = 8
"""Of the lines of a plot; later ones are dotted in the same colours."""
_JSON_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def escape(value: Any) -> str:
    """Text for an element or a quoted attribute."""
    return html.escape(clean_text(value), quote=True)


def render_log(text: str) -> str:
    """Lines as they were printed; where they are too wide, the keyboard scrolls them as well."""
    return f'<pre tabindex="0">{html.escape(clean_text(text, lines=True), quote=True)}</pre>'


def render_frame(page: str, title: str, height_px: int) -> str:
    """A whole page in a frame of its own, which runs no script: its style stays inside."""
    return (
        f'<iframe srcdoc="{html.escape(page, quote=True)}" sandbox title="{escape(title)}" '
        f'style="width:100%;height:{height_px}px;border:0"></iframe>'
    )


def render_json(value: Any) -> str:
    """JSON that can stand inside a script element: pure ASCII, no character that ends it."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    for character, replacement in _JSON_ESCAPES.items():
        text = text.replace(character, replacement)
    return text


def render_verdicts(
    titles: Sequence[str], rows: Iterable[Sequence[str]], badges: Mapping[str, str], *, label: str
) -> str:
    """A table whose rows begin with a verdict, drawn as its badge."""
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in titles)
    body = "".join(
        f'<tr><th scope="row"><span class="badge {badges[verdict]}">{escape(verdict)}</span></th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for verdict, *rest in rows
    )
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def render_table(
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    label: str,
    numbers: Sequence[int] = (),
) -> str:
    """A table in its own scrolling box; the first cell of a row is its heading."""
    head = "".join(
        f'<th scope="col"{_number_class(at, numbers)}>{escape(title)}</th>'
        for at, title in enumerate(titles)
    )
    body = "".join(f"<tr>{_render_cells(row, numbers)}</tr>" for row in rows)
    return (
        f'<div class="scroll" role="group" tabindex="0" aria-label="{escape(label)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of a table that sorts: its text, and what it is sorted by."""

    text: str
    value: float | None = None
    """The figure of a column of numbers; None where it is missing."""
    title: str = ""
    """Where the figure comes from, shown on hover."""
    mark: str = ""
    """A class of the style sheet."""
    small: str = ""
    """More text below, such as an interval."""


def render_sortable(
    titles: Sequence[tuple[str, str]],
    rows: Iterable[tuple[str, Sequence[Cell]]],
    *,
    label: str,
    name: str,
) -> str:
    """A table whose columns sort; titles with what is shown on hover, rows with their attributes.

    The attributes of a row are HTML already. The first cell is the row's heading.
    """
    rows = list(rows)
    # A heading stands as the cells below it do.
    marks = [cell.mark for cell in rows[0][1]] if rows else [""] * len(titles)
    head = "".join(
        f'<th scope="col" aria-sort="none"{_hover(hover)}{_class(mark)}>'
        f'<button type="button" data-sort="{at}">{escape(title)}</button></th>'
        for at, ((title, hover), mark) in enumerate(zip(titles, marks, strict=True))
    )
    body = "".join(f"<tr {attributes}>{_sortable_cells(cells)}</tr>" for attributes, cells in rows)
    return (
        f'<div class="scroll tall" role="group" tabindex="0" aria-label="{escape(label)}">'
        f'<table class="sortable figures" id="{name}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _sortable_cells(cells: Sequence[Cell]) -> str:
    pieces = []
    for at, cell in enumerate(cells):
        tag = 'th scope="row"' if at == 0 else "td"
        value = "" if cell.value is None else f' data-v="{cell.value:.9g}"'
        small = f"<small>{escape(cell.small)}</small>" if cell.small else ""
        pieces.append(
            f"<{tag}{_class(cell.mark)}{value}{_hover(cell.title)}>{escape(cell.text)}{small}</{tag[:2]}>"
        )
    return "".join(pieces)


def _class(mark: str) -> str:
    return f' class="{mark}"' if mark else ""


def _hover(text: str) -> str:
    return f' title="{escape(text)}"' if text else ""


def render_pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Labels with values as a description list."""
    items = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in rows)
    return f'<dl class="pairs">{items}</dl>'


def render_details(title: str, content: str) -> str:
    """Content that unfolds; `content` is HTML already."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def render_canvas(title: str, name: str, series: Sequence[str]) -> str:
    """The place of a plot, which the page's script fills, and its legend with a box a line."""
    legend = "".join(
        f'<label><input type="checkbox" checked data-plot="{name}" data-series="{at}">'
        f'<span class="swatch s{at % COLOURS}{" dotted" if at >= COLOURS else ""}"></span>'
        f"<span>{escape(line)}</span></label>"
        for at, line in enumerate(series)
    )
    return (
        f'<div class="canvas" id="{name}" role="img" aria-label="{escape(title)}"></div>'
        f'<div class="legend" role="group" aria-label="Series of {escape(title)}">{legend}</div>'
    )


def _render_cells(row: Sequence[str], numbers: Sequence[int]) -> str:
    first, *rest = row
    cells = "".join(
        f"<td{_number_class(at, numbers)}>{escape(cell)}</td>"
        for at, cell in enumerate(rest, start=1)
    )
    return f'<th scope="row">{escape(first)}</th>{cells}'


def _number_class(at: int, numbers: Sequence[int]) -> str:
    return ' class="number"' if at in numbers else ""
