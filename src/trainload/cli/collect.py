"""`trainload collect`: times out of traces and logs that others made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from trainload.cli.progress import ProgressLine

EPILOG = """\b
Examples:
  trainload collect trace.json.gz --out tables/
  trainload collect train.log --config model=resnet50 --config batch_size=64
  trainload collect train.log.gz --pattern keras --json
  trainload collect odd.log --pattern-file mine.json"""

LAYERS, STEPS = "layers.csv", "steps.csv"
ITERATIONS, EXPERIMENT = "iterations.csv", "experiment.csv"


def collect_verb(
    file: Path = typer.Argument(help="A Kineto Chrome trace or a training log; gzip or plain."),
    out: Path | None = typer.Option(
        None, help="Folder of the CSV files; default the file's name with -collected."
    ),
    pattern: str | None = typer.Option(
        None, help="Kind of log; default the one that fits the most lines."
    ),
    pattern_file: Path | None = typer.Option(None, help="Log patterns of your own, as JSON."),
    config: list[str] = typer.Option(
        [], "--config", metavar="NAME=VALUE", help="Configuration for experiment.csv; repeatable."
    ),
    force: bool = typer.Option(False, "--force", help="Replace CSV files that exist."),
    as_json: bool = typer.Option(False, "--json", help="Print what was found as JSON."),
) -> int:
    """Turn a trace or a log that any program wrote into CSV tables of times.

    A trace gives layers.csv (each layer's forward, backward and update time by iteration and
    device) and steps.csv. A log gives iterations.csv and experiment.csv (one row: configuration,
    total and validation time, time at 25, 50, 75 and 100 % of the iterations). The kinds of log
    known are in docs/collecting.md.
    """
    from trainload.analyse.collect import recognise

    folder = out if out is not None else Path(f"{_stem(file)}-collected")
    named = parse_config(config)
    if recognise(file) == "log":
        return collect_log_file(
            file, folder, pattern, pattern_file, named, force=force, as_json=as_json
        )
    if pattern is not None or pattern_file is not None or named:
        from trainload.errors import UsageError

        raise UsageError(
            f"{file} is a trace: leave out --pattern, --pattern-file and --config, made for logs"
        )
    return collect_trace_file(file, folder, force=force, as_json=as_json)


def _stem(file: Path) -> str:
    name = file.name
    for suffix in (".gz", ".json", ".log", ".txt", ".trace", ".pt"):
        name = name.removesuffix(suffix)
    return name or "trace"


def parse_config(words: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE words as a mapping; an error where one cannot be meant."""
    from trainload.errors import UsageError

    named: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--config {word}: write NAME=VALUE, as in --config batch_size=64")
        if name in named:
            raise UsageError(f"--config {name} is given twice; keep one")
        if name in ("source", "pattern", "epochs") or name.endswith(
            ("_time_s", "_percent_s", "_done", "_total")
        ):
            raise UsageError(f"--config {name}: that column is taken from the log; rename it")
        named[name] = value
    return named


def _prepare(folder: Path, names: Sequence[str], force: bool) -> list[Path]:
    """Places of the files, checked before the long reading begins."""
    import os

    from trainload.errors import RecordError
    from trainload.report.layers.csv_files import check_free

    paths = [folder / name for name in names]
    check_free(paths, replace=force)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(
            f"cannot make {folder}: {error.strerror}; choose another --out"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise RecordError(f"cannot write in {folder}: no permission; choose another --out")
    return paths


def collect_log_file(
    file: Path,
    folder: Path,
    pattern: str | None,
    pattern_file: Path | None,
    config: dict[str, str],
    *,
    force: bool,
    as_json: bool,
) -> int:
    """Write and print what a log says."""
    from trainload.analyse.collect import LogReading, choose_for_file
    from trainload.report.layers.csv_files import write_experiment_csv, write_iterations_csv

    choice = choose_for_file(file, forced=pattern, own=pattern_file)
    iterations, experiment = _prepare(folder, (ITERATIONS, EXPERIMENT), force)
    with (
        ProgressLine(quiet=as_json) as show,
        LogReading(file, choice, config, lambda seen: show(f"{seen:,} lines")) as reading,
    ):
        write_iterations_csv(reading.columns, reading.rows(), iterations, replace=force)
        found = reading.experiment()
    row = found.row(str(file))
    write_experiment_csv(row, experiment, replace=force)
    if as_json:
        _echo_json(
            {
                "kind": "log",
                "experiment": row,
                "rows": found.rows,
                "lines": found.lines,
                "matched_lines": found.matched_lines,
                "notes": list(found.notes),
                "files": [str(iterations), str(experiment)],
            }
        )
        return 0
    _print_log(found, row)
    typer.echo(f"iterations: {iterations}\nexperiment: {experiment}")
    return 0


def _print_log(found: Any, row: dict[str, Any]) -> None:
    from trainload.report import clean_text
    from trainload.units import MISSING, render_seconds

    typer.echo(
        f"log of kind {clean_text(found.pattern)}: {found.rows:,} rows from "
        f"{found.matched_lines:,} of {found.lines:,} lines"
    )
    for name, value in row.items():
        if name in ("source", "pattern"):
            continue
        if name.endswith("_s") and not isinstance(value, str):
            text = render_seconds(value)
        else:
            text = MISSING if value is None else clean_text(value)
        typer.echo(f"  {clean_text(name):24} {text}")
    for note in found.notes:
        typer.echo(f"note: {clean_text(note)}")


def collect_trace_file(file: Path, folder: Path, *, force: bool, as_json: bool) -> int:
    """Write and print what a trace says."""
    from trainload.analyse.attribution import collect_trace
    from trainload.errors import MissingPart

    try:
        import polars  # noqa: F401 - missing, it would be missed only after the long reading
    except ImportError:
        raise MissingPart("reading a trace needs polars; pip install polars") from None
    made = not folder.exists()
    paths = _prepare(folder, (LAYERS, STEPS), force)
    try:
        with ProgressLine(quiet=as_json) as show:
            rank = collect_trace(file, progress=lambda share: show(f"{share:.0%} read"))
    except BaseException:
        if made:
            folder.rmdir()
        raise
    return print_trace(rank, paths, force=force, as_json=as_json)


def print_trace(rank: Any, paths: Sequence[Path], *, force: bool, as_json: bool) -> int:
    """Write one rank's layers and steps and say what was found."""
    from trainload.analyse.attribution import RunLayers, advise
    from trainload.cli.printing import print_rendered
    from trainload.report.layers.csv_files import write_layers_csv, write_steps_csv
    from trainload.report.layers.terminal import render_layers
    from trainload.report.layers.values import layers_json

    layers, steps = paths
    write_layers_csv([rank], layers, replace=force)
    write_steps_csv([rank], steps, replace=force)
    whole = RunLayers(ranks=(rank,), advice=advise([rank]))
    if as_json:
        _echo_json(
            {"kind": "trace", "layers": layers_json(whole), "files": [str(layers), str(steps)]}
        )
        return 0
    print_rendered(render_layers(whole))
    typer.echo(f"layers: {layers}\nsteps:  {steps}")
    return 0


def _echo_json(document: dict[str, Any]) -> None:
    from trainload.cli.printing import json_text

    typer.echo(json_text(document))
