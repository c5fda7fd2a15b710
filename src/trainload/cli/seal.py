"""`trainload seal`: close and pack run directories."""

from pathlib import Path

import typer

EPILOG = """\b
Example:
  trainload seal runs/*"""


def seal_verb(
    runs: list[Path] = typer.Argument(help="Run directories."),
    as_json: bool = typer.Option(False, "--json", help="Print the outcomes as JSON."),
) -> int:
    """Turn a run's appended lines into tables, closing it first if its driver is gone.

    Nothing is removed before the tables are safely written; sealing twice is harmless.
    """
    from trainload.api.loading import load_run_figures
    from trainload.cli.printing import complain, json_text
    from trainload.errors import RecordError
    from trainload.record import seal_run

    sealed, status = {}, 0
    for path in runs:
        try:
            sealed[str(path)] = seal_run(path)
            load_run_figures(path)
        except RecordError as error:
            status = complain(error)
    if as_json:
        typer.echo(json_text({path: m.outcome for path, m in sealed.items()}))
        return status
    for name, manifest in sealed.items():
        typer.echo(f"{name}: sealed, {manifest.outcome}")
    return status
