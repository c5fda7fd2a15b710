"""`trainload show`: one run on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trainload.cli.printing import json_text

if TYPE_CHECKING:
    from trainload.analyse.attribution.types import RunLayers
    from trainload.api.loading import Run

DEFAULT_LAYERS = 15
EPILOG = """\b
Examples:
  trainload show runs/mlp-20261115-120000-a1b2c3
  trainload show RUN --layers 40
  trainload show RUN --json"""


def show_verb(
    run: Path = typer.Argument(help="A run directory."),
    layers: int = typer.Option(
        DEFAULT_LAYERS, min=0, help="How many of the costliest layers to show; 0 for none."
    ),
    rank: int = typer.Option(0, min=0, help="Whose layers to show, of several processes."),
    as_json: bool = typer.Option(False, "--json", help="Print the summary as JSON."),
) -> int:
    """Show what a run did and cost: outcome, time, loads, quality, energy, own overhead.

    Where its layers were traced: where each step goes, and what to do next.
    """
    from trainload.api.loading import load

    if as_json:
        values, status = run_json(load(run))
        typer.echo(json_text(values))
        return status
    return print_run(load(run), layers=layers, rank=rank)


def print_run(run: Run, *, layers: int = DEFAULT_LAYERS, rank: int = 0) -> int:
    """Print the summary of a run and its layers; 2 where those cannot be read."""
    from trainload.cli.printing import print_rendered
    from trainload.report import render_layers, render_summary

    found, status = readable_layers(run) if layers else (None, 0)
    if found is not None:
        _check_rank(found, rank, run.path)
    print_rendered(render_summary(run.summary, run.manifest))
    if found is not None:
        typer.echo()
        print_rendered(render_layers(found, top=layers, rank=rank))
    return status


def run_json(run: Run) -> tuple[dict[str, Any], int]:
    """The summary of a run and the figures of its layers, for JSON; 2 where those are broken."""
    from trainload.report import layers_json

    values = run.summary.to_json()
    found, status = readable_layers(run)
    return {**values, "layers": None if found is None else layers_json(found)}, status


def readable_layers(run: Run) -> tuple[RunLayers | None, int]:
    """A run's layers, None without any; a trace that cannot be read is told, and the status 2.

    The rest of the run is worth showing even then.
    """
    from trainload.cli.printing import complain
    from trainload.errors import TrainloadError

    try:
        return run.attribution, 0
    except TrainloadError as error:
        return None, complain(error)


def _check_rank(layers: RunLayers, rank: int, path: Path) -> None:
    from trainload.errors import UsageError

    ranks = [found.rank for found in layers.ranks]
    if ranks and rank not in ranks:
        listed = ", ".join(map(str, ranks))
        raise UsageError(f"{path} has no layers of rank {rank}; --rank may be {listed}")
