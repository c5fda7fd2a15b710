"""`trainload report`: runs or a study as one HTML file, layers as a trace or as tables."""

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
  trainload report studies/width-and-batch --html study.html
  trainload report RUN --trace windows.json.gz
  trainload report RUN --csv tables"""


def report_verb(
    runs: list[Path] = typer.Argument(
        help="Run directories, folders of them, or a study's folder."
    ),
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
    """Write one self-contained HTML file about a run, several runs or a study, and print its path.

    What is no run is named, in the page too, and left out; the exit status is then 2.
    """
    from trainload.api.reporting import holds_runs
    from trainload.cli.printing import json_text
    from trainload.cli.show import run_json
    from trainload.errors import UsageError

    several = len(runs) > 1 or holds_runs(runs[0])
    if several and (trace is not None or csv is not None):
        raise UsageError("--trace and --csv are for one run; name one run directory")
    if several and not as_json:
        return _write_many(runs, html or DEFAULT_HTML)
    if several:
        runs = _run_folders(runs)
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
        status = max(status, _write_page(opened[0], html or DEFAULT_HTML))
    return status


def _run_folders(places: Sequence[Path]) -> list[Path]:
    """The run directories of all places; UsageError where there is none."""
    from trainload.api.reporting import find_runs
    from trainload.errors import UsageError

    if not (paths := find_runs(places).paths):
        raise UsageError(f"{places[0]} holds no runs yet")
    return paths


def _write_many(places: Sequence[Path], html: Path) -> int:
    """Write the page of several runs or of a study; 2 where a run or its layers were not read.

    Each of those is told; an error where nothing at all could be read.
    """
    from trainload.api.reporting import find_runs, many_runs
    from trainload.cli.printing import complain, write_page
    from trainload.errors import RecordError
    from trainload.report import render_many

    many = many_runs(find_runs(places))
    if many.problems and not many.is_study and all(shown.run is None for shown in many.runs):
        raise RecordError(many.problems[0][1])
    page = render_many(many)
    write_page(html, page.text)
    for _, words in page.problems:
        complain(RecordError(words))
    typer.echo(str(html.resolve()))
    return 2 if page.problems else 0


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


def _write_page(run: Run, html: Path) -> int:
    """Write the page of one run; 2 where its layers could not be read."""
    from trainload.cli.printing import write_page
    from trainload.cli.show import readable_layers
    from trainload.report import render_html

    layers, status = readable_layers(run)
    write_page(html, render_html(run, run.summary, layers))
    typer.echo(str(html.resolve()))
    return status


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
