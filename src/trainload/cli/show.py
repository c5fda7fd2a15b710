"""`trainload show`: one run on the terminal."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trainload.cli.defaults import defaults_of
from trainload.cli.printing import json_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trainload.analyse.attribution.types import RunLayers
    from trainload.api.costing import Currency
    from trainload.api.loading import Run

DEFAULT_LAYERS = 15
UNKNOWN_WIDTH = 100
"""Cells of the first screen where neither a terminal nor $COLUMNS tells."""
EPILOG = """\b
Examples:
  trainload show runs/mlp-20261115-120000-a1b2c3
  trainload show RUN --layers --top 40
  trainload show RUN --loads --energy
  trainload show RUN --all | less
  trainload show RUN --plain
  trainload show RUN --json"""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Which of a run's fuller parts are asked for; none means its first screen."""

    loads: bool = False
    layers: bool = False
    energy: bool = False
    everything: bool = False

    @property
    def any(self) -> bool:
        """Whether one of them is."""
        return self.loads or self.layers or self.energy or self.everything


def show_verb(
    context: typer.Context,
    run: Path = typer.Argument(help="A run directory."),
    loads: bool = typer.Option(
        False, "--loads", help="Loads, memory, temperatures and clocks over the training."
    ),
    layers: bool = typer.Option(
        False, "--layers", help="Where each step goes, and the tree of its costliest layers."
    ),
    energy: bool = typer.Option(
        False, "--energy", help="Energy by source and by layer, and what the run cost in money."
    ),
    everything: bool = typer.Option(
        False, "--all", help="All of the above, every warning, and how each figure is known."
    ),
    top: int = typer.Option(
        DEFAULT_LAYERS, min=1, help="How many of the costliest layers the tree shows."
    ),
    rank: int = typer.Option(0, min=0, help="Whose layers to show, of several processes."),
    prices: Path | None = typer.Option(
        None, metavar="FILE", help="Prices of your own in place of the shipped ones."
    ),
    plain: bool = typer.Option(
        False, "--plain", help="Name: value lines without bars or columns, for screen readers."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the summary as JSON."),
) -> int:
    """Show what a run cost, where each step goes, and what to do next: one screen.

    At most 24 lines: time, throughput, memory, energy and money; where a step goes; the costliest
    layers; advice with its gain. The other options show the parts behind them.
    """
    from trainload.api.loading import load
    from trainload.cli.printing import use_plain

    if plain:
        use_plain(True)
    if as_json:
        values, status = run_json(load(run))
        typer.echo(json_text(values))
        return status
    parts = Parts(loads=loads, layers=layers, energy=energy, everything=everything)
    currency = defaults_of(context).currency
    if parts.any:
        return print_parts(load(run), parts, top=top, rank=rank, prices=prices, currency=currency)
    return print_first_screen(load(run), rank=rank, prices=prices, currency=currency)


def print_first_screen(
    run: Run,
    *,
    rank: int = 0,
    prices: Path | None = None,
    currency: Currency | None = None,
    ending: bool = False,
) -> int:
    """Print the first screen of a run; 2 where its layers cannot be read.

    At the ending of a run the lines behind it tell its reason and where more is to be seen.
    """
    from trainload.api.costing import run_money
    from trainload.cli.printing import print_rendered
    from trainload.report.screen.content import MORE, first_screen
    from trainload.report.screen.layout import ScreenView

    found, status = readable_layers(run)
    if found is not None:
        _check_rank(found, rank, run.path)
    money = run_money(run.summary, run.manifest, prices=prices, currency=currency)
    screen = first_screen(
        run.summary,
        run.manifest,
        found,
        money=money.words if money.known else None,
        rank=rank,
        more=None if ending else MORE,
    )
    if ending:
        screen = replace(screen, reason=None)
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() and len(columns) < 5 else UNKNOWN_WIDTH
    print_rendered(ScreenView(screen), width=max(width, 1))
    return status


def print_parts(
    run: Run,
    parts: Parts,
    *,
    top: int,
    rank: int,
    prices: Path | None = None,
    currency: Currency | None = None,
) -> int:
    """Print the fuller parts that are asked for; 2 where the layers cannot be read."""
    from trainload.api.costing import run_money
    from trainload.cli.printing import print_rendered
    from trainload.report import render_layers, render_summary
    from trainload.report.run.terminal import render_head, render_loads
    from trainload.report.screen.energy import render_energy_view

    summary, manifest = run.summary, run.manifest
    reads_layers = parts.everything or parts.layers or parts.energy
    found, status = readable_layers(run) if reads_layers else (None, 0)
    if found is not None:
        _check_rank(found, rank, run.path)
    shown: list[RenderableType] = [
        render_summary(summary, manifest) if parts.everything else render_head(summary, manifest)
    ]
    if parts.loads and not parts.everything:
        shown.append(render_loads(summary, manifest))
    if parts.layers or parts.everything:
        if found is not None:
            shown.append(render_layers(found, top=top, rank=rank))
        elif parts.layers and status == 0:
            shown.append("no layers were traced: run it with --layers, or as a script")
    money = run_money(summary, manifest, prices=prices, currency=currency).whole
    if parts.everything:
        shown.append(f"money: {money}")
    elif parts.energy:
        shown.append(render_energy_view(summary, found, money=money, top=top, rank=rank))
    for at, one in enumerate(shown):
        if at:
            typer.echo()
        print_rendered(one)
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
