"""`trainload study`: plan, run, resume, watch and stop a whole campaign of runs."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trainload.cli.progress import ProgressLine

if TYPE_CHECKING:
    from trainload.api.studying import StudySession
    from trainload.study import StudyPlan

EPILOG = """\b
Examples:
  trainload study plan study.yaml
  trainload study run study.yaml --out studies/
  trainload study run study.yaml batch_size=64,128,256
  trainload study run load-analysis --quick
  trainload study status studies/width-and-batch --json
  trainload study watch studies/width-and-batch
  trainload study stop studies/width-and-batch

A killed or stopped study goes on with the same command. Shipped: trainload study list."""

RUN_EPILOG = """\b
Examples:
  trainload study run study.yaml --out studies/
  trainload study run study.yaml --on ray
  trainload study run study.yaml --on ray:10.0.0.1:6379
  trainload study run study.yaml --on slurm --sbatch "--partition=gpu --time=2:00:00"
  trainload study run study.yaml --on ssh:user@board
  trainload study run study.yaml --on ssh:board:/opt/venv/bin/python"""

study_app = typer.Typer(
    help="Plan and run studies: factors, levels and repetitions from a file.",
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
)

_FILE = typer.Argument(help="The study's file, or the name of a shipped study.", metavar="FILE")
_WORDS = typer.Argument(None, help="Factors to add: key=a,b,c.", metavar="KEY=A,B")
_OUT = typer.Option(Path("studies"), help="Folder in which the study's folder is made.")
_QUICK = typer.Option(False, "--quick", help="The file's section `quick`: short runs, fewer.")
_JSON = typer.Option(False, "--json", help="Print as JSON.")
_FOLDER = typer.Argument(help="The study's folder, such as studies/NAME.", metavar="DIR")
_SHOWN = 40
"""Cells listed one by one in a plan or status; --all lists every one."""


@study_app.command("plan", epilog="Example: trainload study plan load-analysis --quick")
def plan_verb(
    file: str = _FILE,
    words: list[str] = _WORDS,
    out: Path = _OUT,
    quick: bool = _QUICK,
    every: bool = typer.Option(False, "--all", help="List every cell."),
    as_json: bool = _JSON,
) -> None:
    """Show cells, order, time, disk and energy before anything runs, and what cannot fit."""
    from trainload.api.studying import plan

    made = plan(file, words=words or (), quick=quick, out=out)
    if as_json:
        typer.echo(json.dumps(made.to_json(), indent=1))
    else:
        typer.echo(render_plan(made, None if every else _SHOWN))


@study_app.command("run", epilog=RUN_EPILOG)
def run_verb(
    file: str = _FILE,
    words: list[str] = _WORDS,
    out: Path = _OUT,
    quick: bool = _QUICK,
    on: str | None = typer.Option(
        None, "--on", help="Other machines: ray, ray:ADDRESS, slurm, ssh:HOST.", metavar="PLACE"
    ),
    sbatch: str = typer.Option("", "--sbatch", help="Options for sbatch, in one word."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress line."),
    as_json: bool = _JSON,
) -> int:
    """Run what is left of a study; the same command again goes on where it was.

    Exit status: 0 finished, 1 stopped, interrupted or with failed cells, 2 usage.
    """
    from trainload.api.studying import run_study

    with ProgressLine(quiet=quiet or as_json) as line, _others_on_stderr():
        session = run_study(
            file,
            out=out,
            words=words or (),
            quick=quick,
            on=on,
            sbatch=_split_options(sbatch),
            show=line,
        )
    if as_json:
        document = {
            "ended_by": session.result.ended_by,
            "ran": session.result.ran,
            **session.status.to_json(),
        }
        typer.echo(json.dumps(document, indent=1))
    else:
        typer.echo(_render_session(session))
    whole = session.result.ended_by == "finished" and not session.status.failed
    return 0 if whole else 1


@study_app.command("status", epilog="Example: trainload study status studies/NAME --json")
def status_verb(
    folder: Path = _FOLDER,
    every: bool = typer.Option(False, "--all", help="List every cell."),
    as_json: bool = _JSON,
) -> None:
    """Show how far a study is: planned, done, failed, running, time left, and each cell."""
    from trainload.api.studying import status
    from trainload.report.study import render_status

    found = status(folder)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=1))
    else:
        typer.echo(render_status(found, None if every else _SHOWN))


@study_app.command("stop", epilog="Example: trainload study stop studies/NAME")
def stop_verb(folder: Path = _FOLDER) -> int:
    """Have a running study finish its running cell and end.

    Exit status: 0 asked, 1 no process runs it.
    """
    from trainload.api.studying import stop

    if stop(folder):
        typer.echo(f"{folder}: ends when the running cell has")
        return 0
    typer.echo(f"{folder}: no process runs it")
    return 1


@study_app.command("watch", epilog="Example: trainload study watch studies/NAME --every 5")
def watch_verb(
    folder: Path = _FOLDER,
    every_s: float = typer.Option(2.0, "--every", help="Seconds between two looks.", min=0.2),
) -> None:
    """Follow a study in the terminal until it ends; Ctrl-C leaves it running."""
    from trainload.api.studying import status
    from trainload.report.study import render_line, render_status
    from trainload.study.folder import is_held

    live = sys.stdout.isatty()
    try:
        while is_held(folder):
            found = status(folder)
            if live:
                sys.stdout.write("\033[H\033[J" + render_status(found, _SHOWN) + "\n")
            else:
                sys.stdout.write(render_line(found) + "\n")
            sys.stdout.flush()
            time.sleep(every_s)
    except KeyboardInterrupt:
        return
    typer.echo(render_status(status(folder), _SHOWN))


@study_app.command("list", epilog="Example: trainload study list")
def list_verb() -> None:
    """List the shipped studies."""
    from trainload.columns import render_columns
    from trainload.study import parse_study, shipped_studies

    rows = [
        (name, " ".join(parse_study(text, f"{name}.yaml").keys.description.split()))
        for name, text in shipped_studies().items()
    ]
    typer.echo(render_columns(("name", "what it asks"), rows, set()))


@study_app.command("schema", epilog="Example: trainload study schema > study.schema.json")
def schema_verb(
    of_run: bool = typer.Option(False, "--run", help="That of a run file instead."),
) -> None:
    """Print the JSON schema of a study file, or of a run file, for editors."""
    from trainload.study.schema import run_schema, study_schema

    typer.echo(json.dumps(run_schema() if of_run else study_schema(), indent=1))


@contextmanager
def _others_on_stderr() -> Iterator[None]:
    """Within, what a library prints goes to standard error: Ray tells of lost nodes on ours."""
    if sys.stdout is None or sys.stderr is None:
        yield  # started with a closed stream
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _split_options(text: str) -> list[str]:
    """The words of --sbatch as a shell would split them."""
    from trainload.errors import UsageError

    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--sbatch {text!r}: {error}") from None


def render_plan(made: StudyPlan, most: int | None) -> str:
    """The plan as text; `most` cells one by one."""
    from trainload.report.study import PlannedCell, render_planned

    rows = [
        PlannedCell(
            title=cell.title,
            seconds=made.costs[cell.identity].seconds,
            memory_bytes=made.costs[cell.identity].memory_bytes,
            fits=made.costs[cell.identity].fits,
        )
        for cell in made.order()
    ]
    return render_planned(
        made.study.name,
        rows,
        repetitions=(made.least, made.most),
        settled=made.settled,
        seconds=made.seconds,
        measured=made.measured_s is not None,
        disk_bytes=made.disk_bytes,
        energy_j=made.total_energy_j,
        absent=[(one.cell.title, one.reason) for one in made.absent],
        most=most,
    )


def _render_session(session: StudySession) -> str:
    from trainload.report.study import render_status

    ended = {
        "finished": "finished",
        "stopped": "stopped as asked; the same command goes on",
        "interrupted": "interrupted; the same command goes on",
        "limit": "the file's limit is reached; the same command goes on",
    }[session.result.ended_by]
    mended = [f"found: {line}" for line in session.result.mended[:10]]
    return "\n".join(
        [
            *mended,
            render_status(session.status, _SHOWN),
            f"{ended}: {session.result.ran} runs in this session",
            f"study:   {session.path}",
        ]
    )
