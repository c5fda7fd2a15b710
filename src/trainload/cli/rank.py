"""`trainload rank`: which framework, or level of any other factor, is best where."""

from pathlib import Path

import typer

EPILOG = """\b
Examples:
  trainload rank studies/edge-evaluation
  trainload rank runs --metric duration_s --metric energy_j
  trainload rank runs setting=*gpu0 --markdown
  trainload rank runs --by precision --within model,batch_size --csv tables/"""


def rank_verb(
    words: list[str] = typer.Argument(
        metavar="PLACE… [KEY=VALUE]…", help="Studies, folders or patterns of runs; which to keep."
    ),
    by: str = typer.Option("framework", help="The factor whose levels are ranked."),
    within: str | None = typer.Option(
        None, metavar="FACTORS", help="What a contest is equal in, such as model,setting."
    ),
    metric: list[str] = typer.Option([], help="What to rank; repeatable."),
    csv: Path | None = typer.Option(None, metavar="DIR", help="Write every table there as CSV."),
    markdown: bool = typer.Option(False, "--markdown", help="Print the tables as Markdown."),
    as_json: bool = typer.Option(False, "--json", help="Print every table as JSON."),
) -> int:
    """Say which level of a factor is best in each model and setting, by how much, how certainly.

    With wins counted, energies checked against power × time, missing cells with their reason, and
    the Pareto fronts of time, energy and accuracy.
    """
    from trainload.api.listing import parse_filters
    from trainload.api.ranking import rank
    from trainload.cli.printing import json_text, write_page
    from trainload.errors import RecordError
    from trainload.report.ranking.tables import render_markdown, render_text

    places = [word for word in words if "=" not in word or Path(word).exists()]
    found = rank(
        places or ["runs"],
        by=by,
        within=None if within is None else [name for name in within.split(",") if name],
        metrics=metric or None,
        where=parse_filters(word for word in words if word not in places),
    )
    if csv is not None:
        try:
            csv.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecordError(f"cannot make {csv}: {error.strerror}") from error
        for name, frame in found.frames().items():
            write_page(csv / f"{name}.csv", frame.write_csv())
    if as_json:
        typer.echo(json_text(found.to_json()))
    else:
        typer.echo(render_markdown(found) if markdown else render_text(found))
    return 0
