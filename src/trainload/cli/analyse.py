"""`trainload analyse`: a study, or any folder of runs, in tables."""

import json
from pathlib import Path

import typer

EPILOG = """\b
Examples:
  trainload analyse studies/width-and-batch
  trainload analyse runs --metric examples_per_s
  trainload analyse studies/width-and-batch --base batch_size=64 --csv tables/"""


def analyse_verb(
    place: str = typer.Argument(help="A study's folder, or a folder or pattern of runs."),
    metric: str | None = typer.Option(
        None, help="What to compare; the step time where nothing is said."
    ),
    base: list[str] = typer.Option(
        [], metavar="FACTOR=LEVEL", help="Compare with this level; repeatable."
    ),
    highest: bool | None = typer.Option(
        None, "--highest/--lowest", help="Which is best; by the metric's name if not said."
    ),
    csv: Path | None = typer.Option(None, metavar="DIR", help="Write every table there as CSV."),
    as_json: bool = typer.Option(False, "--json", help="Print every table as JSON."),
) -> int:
    """Say what differs between the cells of a study: means, intervals, effects, the best.

    Effects are against the base, corrected for many comparisons; where repetitions cannot show a
    difference that is said. Without a study the factors are what differs between the runs.
    """
    from trainload.api.analysing import analyse
    from trainload.cli.printing import print_rendered, write_page
    from trainload.errors import RecordError, UsageError
    from trainload.report.study_tables import render_study

    pairs = [word.partition("=") for word in base]
    if wrong := next(
        (word for word, (_, equals, _) in zip(base, pairs, strict=True) if not equals), None
    ):
        raise UsageError(f"--base {wrong}: write FACTOR=LEVEL")
    found = analyse(
        place, metric=metric, base={name: level for name, _, level in pairs}, highest=highest
    )
    frames = found.frames()
    if csv is not None:
        try:
            csv.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecordError(f"cannot make {csv}: {error.strerror}") from error
        for name, frame in frames.items():
            write_page(csv / f"{name}.csv", frame.write_csv())
    if as_json:
        told = {name: frame.to_dicts() for name, frame in frames.items()}
        typer.echo(
            json.dumps({"metric": found.metric, "rule": found.rule, **told}, ensure_ascii=False)
        )
    else:
        print_rendered(render_study(frames, metric=found.metric, rule=found.rule))
    return 0
