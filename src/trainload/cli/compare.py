"""`trainload compare`: runs against runs, with verdicts, causes and an exit status for CI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from trainload.api.comparing import Comparison

EPILOG = """\b
Examples:
  trainload compare runs/before runs/after
  trainload compare studies/width:batch_size=64 studies/width:batch_size=128
  trainload compare 'base/*' 'change/*' --fail-if slower:5% --fail-if peak_host_bytes:10%
  trainload compare A B --markdown summary.md --html compare.html
  trainload compare RUN --ranks"""


def compare_verb(
    places: list[str] = typer.Argument(
        help="Runs, folders or patterns of runs, studies, or cells (PLACE:NAME=LEVEL,…); each is "
        "compared with the first."
    ),
    margin: float = typer.Option(
        3.0, metavar="PERCENT", help="Difference that does not matter: `same` lies within it."
    ),
    fail_if: list[str] = typer.Option(
        [],
        metavar="WHAT:PERCENT",
        help="Exit with 1 where it is surely worse by more: slower:5%, faster:5%, or a metric's "
        "name; repeatable.",
    ),
    store: Path | None = typer.Option(
        None, help="Folder of runs that tell the spread behind single ones; default beside them."
    ),
    every: bool = typer.Option(False, "--all", help="Also metrics that do not differ."),
    layers: int = typer.Option(15, min=0, help="How many parts of the step to show; 0 for none."),
    html: Path | None = typer.Option(None, help="Write a page with all tables and an icicle."),
    markdown: Path | None = typer.Option(
        None, help="Write a summary in GitHub's Markdown; - prints it."
    ),
    ranks: bool = typer.Option(
        False, "--ranks", help="Compare the processes of one run: skew, who waits for whom."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the comparison as JSON."),
) -> int:
    """Say whether B differs from A, by how much, how sure that is, and which layers make it so.

    Differences are B − A. Exit status: 0, 1 where --fail-if holds, 2 usage.
    """
    from trainload.analyse.compare.gates import parse_gate
    from trainload.api.comparing import compare_all
    from trainload.cli.printing import json_text
    from trainload.errors import UsageError

    if ranks:
        if len(places) > 1 or fail_if:
            raise UsageError("--ranks is for one run and no --fail-if; name one run directory")
        return _compare_ranks(places[0], margin=margin / 100, as_json=as_json)
    if len(places) < 2:
        raise UsageError("compare needs two sides or more; name the reference first")
    gates = [parse_gate(text) for text in fail_if]
    found = compare_all(
        places[0],
        places[1:],
        margin=margin / 100,
        store=store,
        first=[gate.metric for gate in gates],
        layers=bool(layers),
    )
    failures = [line for one in found for gate in gates for line in gate.failures(one)]
    told = [comparison_json(one) for one in found]
    if as_json:
        typer.echo(json_text(told[0] if len(told) == 1 else told))
    elif markdown != Path("-"):
        _print(found, every=every, layers=layers)
    _write(found, failures, html=html, markdown=markdown)
    for line in failures:
        typer.echo(f"fails: {line}", err=True)
    return 1 if failures else 0


def comparison_json(found: Comparison) -> dict[str, Any]:
    """A comparison for JSON."""
    from dataclasses import asdict

    facts = {
        name: [asdict(one) for one in getattr(found, name).differing]
        for name in ("configuration", "environment")
    }
    return {
        "a": found.a,
        "b": found.b,
        "level": found.level,
        "margin": found.margin,
        "counts": found.counts(),
        "metrics": [asdict(one) for one in found.metrics],
        **facts,
        "layers": [asdict(one) for one in found.layers],
        "shared_fraction": found.shared_fraction,
        "notes": list(found.notes),
    }


def _compare_ranks(place: str, *, margin: float, as_json: bool) -> int:
    from dataclasses import asdict

    from trainload.api.rank_comparing import compare_ranks
    from trainload.cli.printing import json_text, print_rendered

    found = compare_ranks(place, margin=margin)
    if as_json:
        typer.echo(json_text(asdict(found)))
        return 0
    from trainload.report.compare.ranks import render_ranks

    print_rendered(render_ranks(found))
    return 0


def _print(found: list[Comparison], *, every: bool, layers: int) -> None:
    from trainload.cli.printing import print_rendered
    from trainload.report.compare.terminal import render_comparison

    for at, one in enumerate(found):
        if at:
            typer.echo()
        print_rendered(render_comparison(one, every=every, layers=layers))


def _write(
    found: list[Comparison], failures: list[str], *, html: Path | None, markdown: Path | None
) -> None:
    from trainload.cli.printing import write_page

    if markdown is not None:
        from trainload.report.compare.markdown import render_markdown

        text = "\n".join(render_markdown(one, failures) for one in found)
        if markdown == Path("-"):
            typer.echo(text)
        else:
            write_page(markdown, text)
    if html is not None:
        from trainload.report.compare.html import render_comparison_page

        write_page(html, render_comparison_page(found))
        typer.echo(str(html.resolve()), err=True)
