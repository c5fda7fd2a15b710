"""`trainload report`: runs as one HTML file, their layers as a trace or as tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainload.api.loading import Run

DEFAULT_HTML = Path("report.html")
EPILOG = """\b
Examples:
  trainload report runs/mlp-20261115-120000-a1b2c3 --html report.html
  trainload report runs/* --html all.html
  trainload report RUN --trace windows.json.gz
  trainload report RUN --csv tables"""


def report_verb(
    runs: list[Path] = typer.Argument(help="Run directories."),
    html: Path | None = typer.Option(
        None, help="The HTML file to write; report.html where nothing else is asked for."
    ),
    trace: Path | None = typer.Option(
        None, help="Write the traced windows of one run for Perfetto, such as out.json.gz."
    ),
    csv: Path | None = typer.Option(
        None, help="Write the layers and steps of one run as CSV files into this folder."
    ),
    rank: int = typer.Option(0, min=0, help="Whose trace to write, of several processes."),
    as_json: bool = typer.Option(False, "--json", help="Print the summaries as JSON instead."),
) -> int:
    """Write one self-contained HTML file about one or several runs, and print its path.

    What is no run is named, in the page too, and left out; the exit status is then 2.
    """
    from trainload.cli.printing import json_text
    from trainload.cli.show import run_json
    from trainload.errors import UsageError

    if len(runs) > 1 and (trace is not None or csv is not None):
        raise UsageError("--trace and --csv are for one run; name one run directory")
    opened, problems = _open_summed(runs)
    status = 2 if problems else 0
    if as_json:
        found = [run_json(run) for run in opened]
        typer.echo(json_text([values for values, _ in found]))
        return max(status, *(fault for _, fault in found))
    if trace is not None:
        from trainload.report import save_trace

        save_trace(opened[0], trace, rank=rank)
        typer.echo(str(trace.resolve()))
    if csv is not None:
        _write_tables(opened[0], csv)
    if html is not None or (trace is None and csv is None):
        status = max(status, _write_page(opened, problems, html or DEFAULT_HTML))
    return status


def _open_summed(paths: Sequence[Path]) -> tuple[list[Run], list[tuple[str, str]]]:
    """Those of the paths that are runs with figures; of the others their name and what is wrong.

    Each of those is told too; an error if none was a run.
    """
    from trainload.api.loading import load
    from trainload.cli.printing import complain
    from trainload.errors import TrainloadError

    runs, faults = [], []
    for path in paths:
        try:
            run = load(path)
            assert run.summary is not None, "the tables can be read, so it can be shown"
            runs.append(run)
        except TrainloadError as error:
            faults.append((path, error))
    if not runs:
        raise faults[0][1]
    for _, fault in faults:
        complain(fault)
    return runs, [(path.name, str(fault)) for path, fault in faults]


def _write_page(runs: Sequence[Run], problems: Sequence[tuple[str, str]], html: Path) -> int:
    """Write the page; 2 where the layers of a run could not be read."""
    from trainload.cli.printing import write_page
    from trainload.cli.show import readable_layers
    from trainload.report import render_html

    found = [readable_layers(run) for run in runs]
    text = render_html(
        [(run, run.summary) for run in runs], [layers for layers, _ in found], problems
    )
    write_page(html, text)
    typer.echo(str(html.resolve()))
    return max((status for _, status in found), default=0)


def _write_tables(run: Run, folder: Path) -> None:
    """Write the tables of layers, steps and host of all ranks; what stood there is replaced."""
    from trainload.errors import RecordError
    from trainload.report.layers.csv_files import (
        write_host_csv,
        write_layers_csv,
        write_steps_csv,
    )

    layers = run.attribution
    if layers is None:
        raise RecordError(
            f"{run.path} has no traced layers; record some with trainload run … --layers"
        )
    tables = {"layers.csv": write_layers_csv, "steps.csv": write_steps_csv}
    if any(rank.host for rank in layers.ranks):
        tables["host.csv"] = write_host_csv
    for name, write in tables.items():
        write(layers.ranks, folder / name, replace=True)
        typer.echo(str((folder / name).resolve()))
