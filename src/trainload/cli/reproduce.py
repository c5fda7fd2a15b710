"""`trainload reproduce`: a published study run again here, and what became of its claims."""

from pathlib import Path

import typer

from trainload.cli.progress import ProgressLine

EPILOG = """\b
Examples:
  trainload reproduce load-analysis --quick
  trainload reproduce per-layer --quick --html per-layer.html
  trainload reproduce edge-evaluation --out studies/ --json"""


def reproduce_verb(
    study: str = typer.Argument(help="load-analysis, per-layer or edge-evaluation."),
    quick: bool = typer.Option(False, "--quick", help="The study's short form."),
    out: Path = typer.Option(Path("studies"), help="Folder in which the study's folder is made."),
    html: Path | None = typer.Option(None, help="Write a page with the tables and verdicts, too."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress line."),
    as_json: bool = typer.Option(False, "--json", help="Print tables and verdicts as JSON."),
) -> int:
    """Run a published study here; say which of its claims this machine confirms or contradicts.

    A claim that the intervals do not decide, or that needs what is not here, is left open: cannot
    tell. The same command again goes on with a study that was interrupted, and runs nothing twice.
    Exit status: 0 run to its end, 1 interrupted, 2 usage.
    """
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
