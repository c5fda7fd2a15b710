"""`trainload history`: one workload's runs over time, and where they changed."""

from __future__ import annotations

import typer

EPILOG = """\b
Examples:
  trainload history runs
  trainload history 'nightly/*' --metric peak_host_bytes
  trainload history runs:model=resnet18 --json"""


def history_verb(
    place: str = typer.Argument(help="A folder or pattern of runs, a study, or a cell of one."),
    metric: str = typer.Option("step_s", help="What to follow."),
    as_json: bool = typer.Option(False, "--json", help="Print runs and changes as JSON."),
) -> int:
    """Follow a metric over many runs of one workload and say where its level changed.

    With the size of each change, its interval, and what else is different between the two runs.
    Several workloads in one place are followed one by one.
    """
    from dataclasses import asdict

    from trainload.api.histories import history
    from trainload.cli.printing import json_text, print_rendered

    found = history(place, metric=metric)
    if as_json:
        typer.echo(json_text([asdict(one) for one in found]))
        return 0
    from trainload.report.compare.history import render_history

    for one in found:
        print_rendered(render_history(one))
    return 0
