"""`trainload show`: one run on the terminal."""

import json
from pathlib import Path

import typer

EPILOG = """\b
Examples:
  trainload show runs/mlp-20261115-120000-a1b2c3
  trainload show RUN --json"""


def show_verb(
    run: Path = typer.Argument(help="A run directory."),
    as_json: bool = typer.Option(False, "--json", help="Print the summary as JSON."),
) -> None:
    """Show what a run did and cost: outcome, time, loads, quality, energy, own overhead."""
    if as_json:
        typer.echo(summary_json(run))
    else:
        print_run(run)


def print_run(path: Path) -> None:
    """Print the summary of a run."""
    from trainload.analyse import summarise_run
    from trainload.cli.printing import print_rendered
    from trainload.record import open_run
    from trainload.report import render_summary

    run = open_run(path)
    print_rendered(render_summary(summarise_run(run), run.manifest))


def summary_json(path: Path) -> str:
    """The summary of a run as JSON text."""
    from trainload.analyse import summarise_run
    from trainload.record import open_run

    return json.dumps(summarise_run(open_run(path)).to_json(), indent=1, ensure_ascii=False)
