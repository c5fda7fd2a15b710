"""`trainload reproduce`: a published study run again here, and what became of its claims."""

from pathlib import Path

import typer

from trainload.cli.progress import ProgressLine

EPILOG = """\b
Examples:
  trainload reproduce load-analysis --quick
  trainload reproduce per-layer --quick --html per-layer.html
  trainload reproduce edge-evaluation --out studies/ --json
  trainload reproduce hardware-recommendations --quick --out figures.json
  trainload reproduce hardware-recommendations --from figures.json --html rules.html"""


_RULES = "hardware-recommendations"


def reproduce_verb(
    study: str = typer.Argument(
        help="load-analysis, per-layer, edge-evaluation or hardware-recommendations."
    ),
    quick: bool = typer.Option(False, "--quick", help="The study's short form."),
    out: Path = typer.Option(
        Path("studies"),
        help="Folder in which the study's folder is made; of hardware-recommendations the file of "
        "what was measured, or its folder.",
    ),
    taken: Path | None = typer.Option(
        None,
        "--from",
        metavar="FILE",
        help="Judge hardware-recommendations by this file, measured here or elsewhere.",
    ),
    html: Path | None = typer.Option(None, help="Write a page with the tables and verdicts, too."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress line."),
    as_json: bool = typer.Option(False, "--json", help="Print tables and verdicts as JSON."),
) -> int:
    """Run a published study here; say which of its claims this machine confirms or contradicts.

    A claim that the intervals do not decide, or that needs what is not here, is left open: cannot
    tell. The same command again goes on with a study that was interrupted, and runs nothing twice.
    Of hardware-recommendations each rule is held to small programs that measure this machine.
    Exit status: 0 run to its end, 1 interrupted, 2 usage.
    """
    if study == _RULES:
        return _reproduce_rules(quick, out, taken, html, quiet, as_json)
    if taken is not None:
        from trainload.errors import UsageError

        raise UsageError(f"--from FILE goes with {_RULES} alone; leave it out for {study}")
    from trainload.api.reproducing import reproduce
    from trainload.cli.printing import complain, json_text, print_rendered, write_page
    from trainload.report.reproduce import render_reproduction, render_reproduction_html

    with ProgressLine(quiet=quiet or as_json) as line:
        found = reproduce(study, quick=quick, out=out, show=line)
    if html is not None:
        write_page(html, render_reproduction_html(found))
    if as_json:
        typer.echo(json_text(found.to_json()))
    else:
        print_rendered(render_reproduction(found))
        typer.echo(f"study:   {found.session.path}")
        if html is not None:
            typer.echo(str(html.resolve()))
    if not found.whole:
        complain("not run to its end; the same command goes on where it was")
    return 0 if found.whole else 1


def _reproduce_rules(
    quick: bool, out: Path, taken: Path | None, html: Path | None, quiet: bool, as_json: bool
) -> int:
    from trainload.api.measuring import reproduce_rules
    from trainload.cli.printing import json_text, print_rendered, write_page

    with ProgressLine(quiet=quiet or as_json) as line:
        found = reproduce_rules(quick=quick, out=out, measured=taken, show=line)
    if html is not None:
        from trainload.report.rules import render_rules_html

        write_page(html, render_rules_html(found))
    if as_json:
        typer.echo(json_text(found.to_json()))
        return 0
    from trainload.report.rules import render_rules

    print_rendered(render_rules(found))
    typer.echo(f"figures: {found.path}")
    if html is not None:
        typer.echo(str(html.resolve()))
    return 0
