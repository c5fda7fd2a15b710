"""`trainload ls`: runs and studies below a folder."""

from pathlib import Path

import typer

EPILOG = """\b
Examples:
  trainload ls
  trainload ls runs model=resnet18 framework=jax
  trainload ls studies outcome=failed
  trainload ls runs --sort step_s"""


def ls_verb(
    words: list[str] = typer.Argument(
        None, metavar="[FOLDER] [KEY=VALUE]…", help="Where to look, and which runs to keep."
    ),
    sort: str | None = typer.Option(
        None, metavar="KEY", help="A fact or a metric; by path where nothing is said."
    ),
    reverse: bool = typer.Option(False, "--reverse", help="The other way round."),
    as_json: bool = typer.Option(False, "--json", help="Print every figure as JSON."),
) -> int:
    """List runs and studies: what tells them apart, outcome, time and what they cost.

    A filter keeps runs by what they were asked to be, such as model, framework, setting or
    batch_size, or by outcome, study, imported; * in its value stands for anything.
    """
    from trainload.api.listing import list_runs, parse_filters
    from trainload.cli.printing import json_text
    from trainload.errors import UsageError
    from trainload.report.listing import render_listing

    folders = [word for word in words or () if "=" not in word or Path(word).is_dir()]
    if len(folders) > 1:
        raise UsageError(f"ls takes one folder, and {len(folders)} are named; name what holds them")
    filters = parse_filters(word for word in words or () if word not in folders)
    found = list_runs(folders[0] if folders else ".", where=filters, sort=sort, reverse=reverse)
    if as_json:
        typer.echo(json_text(found.to_json()))
    else:
        typer.echo(render_listing(found.runs, found.studies, found.notes, left_out=found.left_out))
    return 0
