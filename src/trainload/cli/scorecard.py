"""`trainload scorecard`: how far estimates were from what then happened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainload.analyse.scorecard import EstimatePair, Scorecard, VerdictPair

EPILOG = """\b
Examples:
  trainload scorecard runs/*
  trainload scorecard --truth docs/measurements/raw/memory_scorecard_h200.json
  trainload scorecard runs/* --json
  trainload scorecard runs/* --csv errors.csv"""

_NOTHING = (
    "{}; estimate a workload first, then run it: trainload estimate resnet18 --batch 16 "
    "--target cpu, trainload run resnet18 --batch-size 16"
)


def scorecard_verb(
    runs: list[Path] = typer.Argument(None, help="Run directories whose workload was estimated."),
    truth: list[Path] = typer.Option(
        [], metavar="FILE", help="A file of estimates beside truths; repeatable."
    ),
    csv: Path | None = typer.Option(None, help="Write every row to this CSV file as well."),
    as_json: bool = typer.Option(False, "--json", help="Print the scorecard as JSON."),
) -> int:
    """Hold estimates against what then happened: error by device, model kind and quantity.

    A run has both where its workload had been estimated before it was run. An error is estimate /
    truth − 1; the median is of its size, the bias its mean with the sign.
    """
    from trainload.analyse.scorecard import score_estimates
    from trainload.cli.printing import json_text, print_rendered
    from trainload.errors import UsageError
    from trainload.report.memory.scorecard import render_scorecard

    if not runs and not truth:
        raise UsageError("name run directories, or a file of truths with --truth")
    pairs, verdicts, status = _read(runs or [], truth)
    card = score_estimates(pairs, verdicts)
    if not card.rows.height and not card.verdicts.height:
        raise UsageError(_NOTHING.format("nothing here was both estimated and measured"))
    if csv is not None:
        _write_csv(card, csv)
    if as_json:
        typer.echo(json_text(scorecard_json(card)))
    else:
        print_rendered(render_scorecard(card))
    return status


def scorecard_json(card: Scorecard) -> dict[str, Any]:
    """Every frame as rows, and how often "fits" was wrong."""
    return {
        "totals": card.totals.to_dicts(),
        "groups": card.groups.to_dicts(),
        "rows": card.rows.to_dicts(),
        "verdicts": card.verdicts.to_dicts(),
        "said_fits_ran_out": card.wrong_fits.height,
        "wrong_fits": card.wrong_fits.to_dicts(),
    }


def _read(
    runs: Sequence[Path], truths: Sequence[Path]
) -> tuple[list[EstimatePair], list[VerdictPair], int]:
    """What all of them pair, and 2 where a run could not be read."""
    from trainload.analyse.scorecard import pair_card, pair_run
    from trainload.cli.printing import open_readable
    from trainload.record.estimates import load_estimate, load_scorecard

    pairs: list[EstimatePair] = []
    verdicts: list[VerdictPair] = []
    opened, status = open_readable(runs) if runs else ([], 0)
    for run in opened:
        estimate = load_estimate(run.path)
        if estimate is not None:
            found, said = pair_run(run.manifest, estimate)
            pairs, verdicts = pairs + found, verdicts + said
    for path in truths:
        found, said = pair_card(load_scorecard(path))
        pairs, verdicts = pairs + found, verdicts + said
    return pairs, verdicts, status


def _write_csv(card: Scorecard, path: Path) -> None:
    from trainload.cli.printing import write_page

    write_page(path, card.rows.write_csv())
