"""`trainload report`: runs as one HTML file."""

from pathlib import Path

import typer

EPILOG = """\b
Examples:
  trainload report runs/mlp-20261115-120000-a1b2c3 --html report.html
  trainload report runs/* --html all.html"""


def report_verb(
    runs: list[Path] = typer.Argument(help="Run directories."),
    html: Path = typer.Option(Path("report.html"), help="The HTML file to write."),
    as_json: bool = typer.Option(False, "--json", help="Print the summaries as JSON instead."),
) -> int:
    """Write one self-contained HTML file about one or several runs, and print its path.

    What is no run is named and left out; the exit status is then 2.
    """
    import json

    from trainload.analyse import summarise_run
    from trainload.cli.printing import open_readable
    from trainload.errors import RecordError
    from trainload.report import render_html

    opened, status = open_readable(runs)
    summaries = [summarise_run(run) for run in opened]
    if as_json:
        typer.echo(json.dumps([s.to_json() for s in summaries], indent=1, ensure_ascii=False))
        return status
    text = render_html(list(zip(opened, summaries, strict=True)))
    temporary = html.with_name(f".{html.name}.part")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(html)
    except OSError as error:
        raise RecordError(f"cannot write {html}: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)
    typer.echo(str(html.resolve()))
    return status
