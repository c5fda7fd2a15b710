"""Comparisons as one self-contained page: tables and the icicle; runs no script."""

from __future__ import annotations

from collections.abc import Sequence

from trainload._version import __version__
from trainload.analyse.compare import Comparison
from trainload.report.compare import wording
from trainload.report.compare.icicle import render_icicle
from trainload.report.markup import escape, render_details, render_table
from trainload.report.page import render_page

_MOST_LAYERS = 200
_STYLES = {"better": "good", "worse": "bad"}


def render_comparison_page(found: Sequence[Comparison]) -> str:
    """The text of one HTML file about one reference and what is compared with it."""
    title = f"{found[0].a} against {', '.join(one.b for one in found)}"
    return render_page(
        title=title,
        skip="Skip to the comparison",
        top=f'<header class="top"><h1>{escape(title)}</h1></header>',
        sections=[_section(one) for one in found],
        footer=f"trainload {escape(__version__)}. Differences are B − A; A is the left-most side.",
        data=None,
        styles=("report.css", "compare.css"),
        scripts=(),
    )


def _section(found: Comparison) -> str:
    rows = wording.metric_rows(found)
    every = wording.metric_rows(found, every=True)
    standing = _STYLES.get(found.metrics[0].standing, "open")
    tables = [
        _table(wording.METRIC_TITLES, rows, "Metrics that differ", range(1, 7)),
        render_details(
            f"All {len(every)} metrics",
            _table(wording.METRIC_TITLES, every, "All metrics", range(1, 7)),
        ),
        *_layers(found),
    ]
    for title, facts in wording.fact_tables(found):
        tables.append(f"<h3>{escape(title.capitalize())}</h3>")
        tables += [_table(wording.FACT_TITLES, facts, title, ())] if facts else []
    notes = "".join(f"<p>{escape(n)}</p>" for n in (*found.notes, wording.rule_line(found)))
    return (
        f"<article><h2>{escape(wording.headline(found))} "
        f'<span class="badge {standing}">{escape(found.metrics[0].verdict)}</span></h2>'
        f'<p>{escape(wording.sides_line(found))}</p><p class="lead">'
        f"{escape(wording.counts_line(found))}</p>{''.join(tables)}"
        f'<div class="quiet">{notes}</div></article>'
    )


def _layers(found: Comparison) -> list[str]:
    rows = wording.layer_rows(found, _MOST_LAYERS)
    if not rows:
        return []
    icicle = render_icicle(found)
    words = (
        "Width is the time now (B); orange became slower, blue faster, pale where that is not "
        "decided; dashed layers are gone."
    )
    figure = f'<figure>{icicle}<p class="quiet">{words}</p></figure>' if icicle else ""
    table = _table(wording.LAYER_TITLES, rows, "Where the difference lies", range(2, 6))
    shared = f"<p>{escape(wording.shared_line(found))}</p>"
    return ["<h3>Where the difference lies</h3>", figure, shared, table]


def _table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], label: str, numbers: Sequence[int]
) -> str:
    return render_table(titles, rows, label=label, numbers=tuple(numbers))
