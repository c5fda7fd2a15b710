"""`trainload import`: files of other tools as run directories."""

from pathlib import Path

import typer

EPILOG = """\b
Examples:
  trainload import edge-results results.csv energy.csv
  trainload import tegrastats board.log --interval 1 --config model=lenet
  trainload import nvidia-smi gpu.csv --config framework=torch
  trainload import load-lists loads.json --interval 0.5 --unit gpu=fraction"""


def import_verb(
    kind: str = typer.Argument(
        help="tegrastats, edge-training-log, edge-results, load-lists, kineto, nvidia-smi, "
        "codecarbon or mlflow."
    ),
    files: list[Path] = typer.Argument(help="What the tool left."),
    out: Path = typer.Option(Path("runs"), help="Folder of the runs."),
    unit: list[str] = typer.Option(
        [], metavar="COLUMN=UNIT", help="Unit of a column, such as board=W; repeatable."
    ),
    interval: float | None = typer.Option(
        None, metavar="SECONDS", help="Time between readings, where the file tells none."
    ),
    config: list[str] = typer.Option(
        [], metavar="NAME=VALUE", help="What was trained: model, framework, …; repeatable."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print paths and what was kept as JSON."),
) -> int:
    """Turn files of other tools into runs that every verb reads, marked as imported.

    Nothing is guessed: a column whose unit neither its format nor --unit tells is kept as it is,
    and said so.
    """
    from trainload.api.importing import import_runs
    from trainload.api.listing import parse_filters
    from trainload.cli.printing import json_text
    from trainload.integrations.imports.units import parse_units
    from trainload.report import clean_text

    runs = import_runs(
        kind, files, out=out, units=parse_units(unit), interval_s=interval,
        config=parse_filters(config),
    )  # fmt: skip
    told = [(run.path, run.manifest.imported, run.manifest.warnings[1:]) for run in runs]
    if as_json:
        typer.echo(
            json_text(
                [
                    {"path": str(path), "raw": list(origin.raw) if origin else [], "notes": notes}
                    for path, origin, notes in told
                ]
            )
        )
        return 0
    for path, _, _ in told:
        typer.echo(str(path))
    kept = dict.fromkeys(name for _, origin, _ in told if origin is not None for name in origin.raw)
    for name in kept:
        typer.echo(f"note: no unit is known of {clean_text(name)}: kept raw; say --unit {name}=W")
    for note in dict.fromkeys(note for _, _, notes in told for note in notes):
        typer.echo(f"note: {clean_text(note)}")
    return 0
