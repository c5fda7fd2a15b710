"""`trainload scorecard`: how far estimates and predictions were from what then happened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainload.analyse.predicted import PredictionCard, PredictionPair
    from trainload.analyse.scorecard import EstimatePair, Scorecard, VerdictPair

EPILOG = """\b
Examples:
  trainload scorecard runs/*
  trainload scorecard --truth docs/measurements/raw/memory_scorecard_h200.json
  trainload scorecard runs/* --json
  trainload scorecard runs/* --html scorecard.html
  trainload scorecard runs/* --csv errors.csv"""

_NOTHING = (
    "{}; estimate or predict a workload first, then run it: trainload estimate resnet18 "
    "--batch 16 --target cpu, trainload run resnet18 --batch-size 16"
)


def scorecard_verb(
    runs: list[Path] = typer.Argument(
        None, help="Run directories whose workload was estimated or predicted."
    ),
    truth: list[Path] = typer.Option(
        [], metavar="FILE", help="A file of estimates beside truths; repeatable."
    ),
    csv: Path | None = typer.Option(
        None, help="Write every row of the estimates to this CSV file as well."
    ),
    html: Path | None = typer.Option(None, help="Write the scorecard as one HTML file as well."),
    as_json: bool = typer.Option(False, "--json", help="Print the scorecard as JSON."),
) -> int:
    """Hold estimates and predictions against what then happened.

    A run has both where its workload had been estimated, or predicted for its device, before. An
    error is what was said / truth − 1; the median is of its size, the bias its mean with the sign.
    Of predictions it is also told whether the range held the truth.
    """
    from trainload.analyse.predicted import score_predictions
    from trainload.analyse.scorecard import score_estimates
    from trainload.cli.printing import json_text, print_rendered
    from trainload.errors import UsageError
    from trainload.report.memory.scorecard import render_scorecard
    from trainload.report.predict.scorecard import render_prediction_card

    if not runs and not truth:
        raise UsageError("name run directories, or a file of truths with --truth")
    read = _read(runs or [], truth)
    card = score_estimates(read.pairs, read.verdicts)
    predictions = score_predictions(read.predictions)
    estimated = bool(card.rows.height or card.verdicts.height)
    if not estimated and not predictions.rows.height:
        raise UsageError(_NOTHING.format("nothing here was both estimated and measured"))
    if csv is not None:
        _write_csv(card, csv)
    if html is not None:
        from trainload.cli.printing import write_page
        from trainload.report.predict.scorecard_html import render_scorecard_html

        write_page(html, render_scorecard_html(card, predictions))
    if as_json:
        typer.echo(json_text(scorecard_json(card, predictions)))
        return read.status
    if estimated:
        print_rendered(render_scorecard(card))
    if predictions.rows.height:
        print_rendered(render_prediction_card(predictions))
    if html is not None:
        typer.echo(f"\n{html.resolve()}")
    return read.status


def scorecard_json(card: Scorecard, predictions: PredictionCard) -> dict[str, Any]:
    """Every frame as rows, and how often "fits" was wrong."""
    return {
        "totals": card.totals.to_dicts(),
        "groups": card.groups.to_dicts(),
        "rows": card.rows.to_dicts(),
        "verdicts": card.verdicts.to_dicts(),
        "said_fits_ran_out": card.wrong_fits.height,
        "wrong_fits": card.wrong_fits.to_dicts(),
        "predictions": {
            "groups": predictions.groups.to_dicts(),
            "rows": predictions.rows.to_dicts(),
        },
    }


@dataclass(frozen=True, kw_only=True)
class _Read:
    """What all of the runs and files pair."""

    pairs: list[EstimatePair]
    verdicts: list[VerdictPair]
    predictions: list[PredictionPair]
    status: int
    """2 where a run could not be read."""


def _read(runs: Sequence[Path], truths: Sequence[Path]) -> _Read:
    from trainload.analyse.predicted import pair_prediction
    from trainload.analyse.scorecard import pair_card, pair_run
    from trainload.cli.printing import open_readable
    from trainload.record.estimates import load_estimate, load_scorecard
    from trainload.record.predictions import load_prediction

    pairs: list[EstimatePair] = []
    verdicts: list[VerdictPair] = []
    predictions: list[PredictionPair] = []
    opened, status = open_readable(runs) if runs else ([], 0)
    for run in opened:
        estimate = load_estimate(run.path)
        if estimate is not None:
            found, said = pair_run(run.manifest, estimate)
            pairs, verdicts = pairs + found, verdicts + said
        prediction = load_prediction(run.path)
        if prediction is not None:
            predictions += pair_prediction(run.manifest, run.summary, prediction)
    for path in truths:
        found, said = pair_card(load_scorecard(path))
        pairs, verdicts = pairs + found, verdicts + said
    return _Read(pairs=pairs, verdicts=verdicts, predictions=predictions, status=status)


def _write_csv(card: Scorecard, path: Path) -> None:
    from trainload.cli.printing import write_page

    write_page(path, card.rows.write_csv())
