"""`trainload doctor`: what works here, what is missing, and the command that mends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

import typer

from trainload.cli.printing import json_text

if TYPE_CHECKING:
    from trainload.api.doctoring import Finding

EPILOG = """\b
Examples:
  trainload doctor
  trainload doctor --json

\b
Exit status: 0, or 1 where something is broken: a framework's environment, a folder that cannot be
written, the file of your defaults. What is merely missing leaves it at 0."""
_MARKS = {"good": "ok", "missing": "missing", "not here": "not here", "broken": "BROKEN"}


def doctor_verb(
    as_json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> int:
    """Say what works here, what is missing, and for each missing thing the command that mends it.

    Looks at libraries, frameworks, the machine, every meter, folders and your defaults.
    """
    from trainload.api.doctoring import defaults_finding, examine
    from trainload.cli.app import app
    from trainload.cli.defaults import defaults_path, load_defaults
    from trainload.errors import UsageError

    try:
        load_defaults(app)
        own = defaults_finding(defaults_path(), None)
    except UsageError as error:
        own = defaults_finding(defaults_path(), error)
    first, *others = examine()
    found = [first, own, *others]
    status = 1 if any(one.state == "broken" for one in found) else 0
    if as_json:
        typer.echo(json_text({"findings": [asdict(one) for one in found], "status": status}))
        return status
    _print(found)
    return status


def _print(found: Sequence[Finding]) -> None:
    from trainload.cli.printing import print_rendered
    from trainload.report.run.terminal import table_of

    rows: list[tuple[str, str, str]] = []
    for words, alike in groupby(found, key=lambda one: one.words):
        first, *others = alike
        if others and first.state == "not here":
            rows.append((f"{first.name} and {len(others)} more", _MARKS[first.state], words))
        else:
            rows += [(one.name, _MARKS[one.state], words) for one in (first, *others)]
    print_rendered(table_of(("", "state", "what"), rows, numbers=False))
    mends = [(one.name, one.mend) for one in found if one.mend is not None]
    if mends:
        typer.echo()
        print_rendered(table_of(("missing", "the command that mends it"), mends, numbers=False))
    typer.echo()
    typer.echo("trainload detect lists every column that the meters give")
