"""The scorecard as one self-contained page: predictions, estimates and verdicts beside truths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from trainload.report.markup import escape, render_table
from trainload.report.memory.scorecard import QUANTITY_TITLES, render_error
from trainload.report.page import render_page
from trainload.report.predict.scorecard import group_cells, row_cells
from trainload.units import render_bytes

if TYPE_CHECKING:
    from trainload.analyse.predicted import PredictionCard
    from trainload.analyse.scorecard import Scorecard


def render_scorecard_html(card: Scorecard, predictions: PredictionCard) -> str:
    """The page as text; a kind of which nothing is known has no section."""
    sections = []
    if predictions.rows.height:
        sections.append(_predictions(predictions))
    if card.rows.height:
        sections.append(_estimates(card))
    if card.verdicts.height:
        sections.append(_verdicts(card))
    return render_page(
        title="Scorecard",
        skip="Skip to the tables",
        top='<header class="top"><h1>What was said, and what happened</h1></header>',
        sections=sections,
        footer="Made by trainload. An error is what was said over what was measured, less one; "
        "the median is of its size, the bias its mean with the sign.",
        data=None,
        styles=("report.css",),
        scripts=(),
        plots=False,
    )


def _predictions(card: PredictionCard) -> str:
    steps = card.rows.filter(card.rows["quantity"] == "step_s")
    held, ranged = int(steps["held"].sum()), int(steps["held"].count())
    groups = _table(
        ("device", "tier", "quantity", "count", "median", "worst", "bias", "in range"),
        (group_cells(row) for row in card.groups.iter_rows(named=True)),
        3,
    )
    rows = _table(
        (
            "run", "device", "tier", "quantity", "predicted", "range", "measured", "error",
            "in range",
        ),
        (row_cells(row) for row in card.rows.iter_rows(named=True)),
        4,
    )  # fmt: skip
    said = f"The range held the measured step in {held} of {ranged} runs."
    return _section("Predictions of time and energy", said, groups + rows)


def _estimates(card: Scorecard) -> str:
    groups = _table(
        ("device", "model kind", "quantity", "count", "median", "worst", "bias"),
        (
            (
                row["device"],
                row["model_kind"],
                QUANTITY_TITLES[row["quantity"]],
                str(row["count"]),
                f"{row['median_error'] * 100:.1f} %",
                render_error(row["worst_error"]),
                render_error(row["bias_error"]),
            )
            for row in card.groups.iter_rows(named=True)
        ),
        3,
    )
    rows = _table(
        ("name", "device", "quantity", "estimate", "truth", "error"),
        (
            (
                row["name"],
                row["device"],
                QUANTITY_TITLES[row["quantity"]],
                render_bytes(row["estimate_bytes"]),
                render_bytes(row["truth_bytes"]),
                render_error(row["error"]),
            )
            for row in card.rows.iter_rows(named=True)
        ),
        3,
    )
    return _section("Estimates of memory", "Rows come furthest off first.", groups + rows)


def _verdicts(card: Scorecard) -> str:
    table = _table(
        ("said", "went through", "ran out"),
        (
            (row["verdict"], str(row["fits"]), str(row["out_of_memory"]))
            for row in card.verdicts.iter_rows(named=True)
        ),
        1,
    )
    said = f"Said to fit, and ran out: {card.wrong_fits.height}."
    return _section("Verdicts", said, table)


def _section(title: str, said: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2><p>{escape(said)}</p>{content}</section>"


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]], first_number: int) -> str:
    numbers = range(first_number, len(titles))
    return render_table(titles, rows, label=", ".join(titles), numbers=numbers)
