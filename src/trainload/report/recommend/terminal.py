"""A recommendation as text: the answer first, choices, reasons, what would change it, the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trainload.columns import render_columns
from trainload.report.recommend.wording import (
    NUMBERS,
    RANGES,
    TITLES,
    choice_cells,
    doubt_words,
    render_answer,
    render_head,
)
from trainload.report.wording import clean_text

if TYPE_CHECKING:
    from trainload.recommend.types import Rejection
    from trainload.report.recommend.wording import RecommendedLike

MOST_NAMES = 6
"""Of candidates that share a reason; the document has them all."""


def render_recommendation(done: RecommendedLike, most: int) -> str:
    """The whole answer, with at most so many choices and rejections."""
    lines = [clean_text(render_answer(done)), clean_text(render_head(done))]
    lines += [*_choices(done, most), *_nearest(done)]
    lines += _listed("why", done.found.why)
    lines += _listed("what would change it", done.found.changes)
    doubt = doubt_words(done)
    if doubt is not None:
        lines += ["", clean_text(doubt)]
    lines += [*_rejected(done, most), *_notes(done)]
    return "\n".join(lines)


def _choices(done: RecommendedLike, most: int) -> Iterator[str]:
    choices = done.found.choices
    if not choices:
        return
    rows = [tuple(map(clean_text, choice_cells(one))) for one in choices[:most]]
    used = [
        at for at in range(len(TITLES)) if any(row[at] not in ("–", "") for row in rows)
    ]  # a column that says nothing is left out
    right = {used.index(at) for at in NUMBERS if at in used}
    yield ""
    yield render_columns(
        [TITLES[at] for at in used], [[row[at] for at in used] for row in rows], right
    )
    more = len(choices) - most
    if more > 0:
        yield f"{more} more choices: --most {len(choices)}, or --json"
    yield RANGES


def _nearest(done: RecommendedLike) -> Iterator[str]:
    nearest = done.found.nearest
    if len(nearest) > 1:
        yield from _listed(
            "nearest", [f"{one.name}: {'; '.join(one.missed_by)}" for one in nearest]
        )


def _listed(title: str, texts: Sequence[str]) -> Iterator[str]:
    if texts:
        yield ""
        yield title
        yield from (f"  {clean_text(text)}" for text in texts)


def _rejected(done: RecommendedLike, most: int) -> Iterator[str]:
    """By reason: candidates that share one stand together."""
    groups: dict[str, list[str]] = {}
    for one in done.found.rejected:
        groups.setdefault(_reason(one), []).append(one.name)
    for name, reason in done.unknown:
        groups.setdefault(reason, []).append(name)
    if not groups:
        return
    count = len(done.found.rejected) + len(done.unknown)
    yield ""
    yield f"rejected: {count}"
    for reason, names in list(groups.items())[:most]:
        yield f"  {clean_text(_names(names))}: {clean_text(reason)}"
    if len(groups) > most:
        rest = sum(len(names) for names in list(groups.values())[most:])
        yield f"  {rest} more, each with its reason: --json"


def _names(names: list[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _reason(one: Rejection) -> str:
    """The reason without the name, so that those of one kind stand together."""
    return one.reason.replace(f" of {one.device.name}", " of it")


def _notes(done: RecommendedLike) -> Iterator[str]:
    if done.notes:
        yield ""
        yield from (f"  {clean_text(note)}" for note in done.notes)
