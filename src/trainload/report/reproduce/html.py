"""A reproduction as one self-contained page that runs no script."""

from __future__ import annotations

from trainload.report.markup import (
    escape,
    render_details,
    render_pairs,
    render_table,
    render_verdicts,
)
from trainload.report.page import render_page
from trainload.report.reproduce.wording import (
    CLAIM_TITLES,
    ReproductionLike,
    claim_row,
    observer_rows,
    render_cell,
    render_counts,
    render_reading,
    render_title,
)

_BADGES = {"confirms": "good", "contradicts": "bad", "cannot tell": "open"}


def render_reproduction_html(found: ReproductionLike) -> str:
    """The page as text: verdicts, the published tables beside the measured, every comparison."""
    return render_page(
        title=render_title(found),
        skip="Skip to the verdicts",
        top=f'<header class="top"><h1>{escape(render_title(found))}</h1></header>',
        sections=(_claims(found), _observer(found), *_tables(found), _compared(found)),
        footer="Made by trainload. [low, high] bounds a figure at 95 %; ~ marks one with too few "
        "repetitions for an interval; – is not measured.",
        data=None,
        styles=("report.css",),
        scripts=(),
    )


def _claims(found: ReproductionLike) -> str:
    table = render_verdicts(CLAIM_TITLES, map(claim_row, found.judged), _BADGES, label="Claims")
    return (
        f"<section><h2>Claims</h2><p>{escape(render_counts(found.judged))}.</p>"
        f"<p>Source: {escape(found.file.source)}.</p>{table}</section>"
    )


def _observer(found: ReproductionLike) -> str:
    if found.observed is None:
        return ""
    return (
        "<section><h2>The monitor inside the source&#x27;s training loop</h2>"
        f"{render_pairs(observer_rows(found.observed))}</section>"
    )


def _tables(found: ReproductionLike) -> list[str]:
    return [
        f"<section><h2>{escape(one.title)}</h2><p>{escape(one.source)}.</p>"
        + render_table(
            one.columns,
            [[render_cell(cell) for cell in row] for row in one.rows],
            label=one.title,
            numbers=range(1, len(one.columns)),
        )
        + "</section>"
        for one in found.tables
    ]


def _compared(found: ReproductionLike) -> str:
    titles = ("comparison", "figure", "runs", "as claimed", "why not known")
    words = {True: "yes", False: "no", None: "open"}
    parts = [
        render_details(
            f"{one.claim.id}: {one.claim.says}",
            render_table(
                titles,
                [
                    (
                        of.title,
                        render_reading(of.reading),
                        str(of.reading.runs),
                        words[of.holds],
                        of.reading.reason or "",
                    )
                    for of in one.compared
                ],
                label=f"Comparisons of {one.claim.id}",
                numbers=(1, 2),
            ),
        )
        for one in found.judged
    ]
    return f"<section><h2>Every comparison</h2>{''.join(parts)}</section>"
