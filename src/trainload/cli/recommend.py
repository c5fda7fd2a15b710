"""`trainload recommend`: on which hardware to train, how, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from trainload.cli.estimate import LIMIT_S, model_options
from trainload.cli.printing import json_text, write_page

MINUTES = 4.0

EPILOG = """\b
Examples:
  trainload recommend resnet50 --batch 256 --examples 1281167 --epochs 90 --deadline 48h
  trainload recommend resnet50 --examples 50000 --epochs 20 --candidates laptop
  trainload recommend my.py:build --batch 32 --steps 50000 --candidates 8xt4,1xh100-sxm
  trainload recommend resnet18 --examples 50000 --max-power 15 --objective energy
  trainload recommend runs/mlp-20260101-120000 --here
  trainload recommend lenet5 --batch 64 --here --try --minutes 10
  trainload recommend --script train.py --steps 10000 --budget 50 --spot -- --its arguments"""


def recommend_verb(
    model: str | None = typer.Argument(
        None,
        help="A built-in model, the path of a layer graph as JSON, a function in your file such "
        "as my.py:build, or a run directory.",
    ),
    arguments: list[str] = typer.Argument(None, help="The script's own arguments, after --."),
    examples: int | None = typer.Option(None, help="Examples of one epoch.", min=1),
    epochs: int | None = typer.Option(None, help="Epochs of the whole training.", min=1),
    steps: int | None = typer.Option(None, help="Steps of the whole training.", min=1),
    batch: int | None = typer.Option(
        None,
        help="Examples in a step over all devices; a choice where it is not named.",
        min=1,
        max=10**8,
    ),
    deadline: str | None = typer.Option(
        None, metavar="TIME", help="By when it must be done, as 48h, 90min or 2d."
    ),
    budget: float | None = typer.Option(None, metavar="USD", help="What it may cost."),
    max_power: float | None = typer.Option(
        None, metavar="WATTS", help="What the boards may draw together."
    ),
    candidates: str | None = typer.Option(
        None,
        metavar="LIST",
        help="Devices with commas between them, 8xt4 for eight together, a file of your own, "
        "laptop, gaming, workstation, data-centre, board, cpu, owned, or catalogue, the default.",
    ),
    objective: str | None = typer.Option(
        None, help="time, money or energy; money where there is a deadline, else time."
    ),
    precision: str | None = typer.Option(
        None, help="float32, tf32, bf16 or fp16; a choice where it is not named."
    ),
    optimizer: str | None = typer.Option(
        None, help="sgd, adam, adamw, rmsprop or adagrad; default adam."
    ),
    momentum: float = typer.Option(0.9, help="Of sgd; 0 for plain SGD."),
    prices: str | None = typer.Option(
        None, metavar="FILE", help="Prices of your own in place of the shipped ones."
    ),
    spot: bool = typer.Option(False, "--spot", help="Price spot instances, not those on demand."),
    provider: str | None = typer.Option(None, help="Whose instances to price."),
    region: str | None = typer.Option(
        None, help="Of the instances, and for the emissions: a cloud's region or a country."
    ),
    script: str | None = typer.Option(
        None, metavar="FILE", help="A torch script as it stands, in place of a model."
    ),
    limit_s: float = typer.Option(LIMIT_S, help="Seconds that tracing one step may take."),
    python: str | None = typer.Option(
        None, help="Interpreter that has torch; default its environment."
    ),
    here: bool = typer.Option(
        False, "--here", help="How to set it on this machine, in place of which hardware to take."
    ),
    tries: bool = typer.Option(
        False, "--try", help="With --here: measure the suggestions, each against the default."
    ),
    minutes: float | None = typer.Option(None, help="About how long --try may take; default 4."),
    history: str = typer.Option(
        "runs", metavar="FOLDER", help="With --here: runs that tell gains of this machine."
    ),
    out: str = typer.Option("studies", help="Where the study of --try is kept."),
    most: int = typer.Option(10, help="Choices and rejections to show.", min=1),
    classes: int | None = typer.Option(None, help="Classes to tell apart."),
    input_shape: str | None = typer.Option(
        None, "--input", metavar="SHAPE", help="Shape of one example, such as 3x224x224."
    ),
    words: list[str] = typer.Option(
        [], "--set", metavar="NAME=VALUE", help="Any option of the model; repeatable."
    ),
    html: Path | None = typer.Option(None, metavar="FILE", help="Write a page with a plot."),
    as_json: bool = typer.Option(False, "--json", help="Print as JSON, with every candidate."),
) -> None:
    """On which hardware should this be trained, how, and why? None of it is needed here.

    Every candidate's time, energy and money are predicted from one trace of the step. The answer
    ranks whole plans, says what would change it, which measurement would decide it where ranges
    overlap, and why each other candidate is none. Where nothing keeps to the demands it says what
    comes nearest, and ends with status 0 all the same.
    """
    from trainload.api.recommending import recommend
    from trainload.cli.progress import ProgressLine
    from trainload.errors import UsageError

    if model is None and script is None:
        raise UsageError(
            "name what is trained, as in: trainload recommend resnet50 --examples 50000"
        )
    options = model_options(model, script, arguments or [], classes, input_shape, words)
    if script is not None:
        arguments = [*([model] if model else []), *(arguments or [])]
    code: dict[str, Any] = {
        "script": True if script is not None else None,
        "arguments": arguments or [],
        "python": python,
        "limit_s": limit_s,
        "optimizer": optimizer,
        "momentum": momentum,
    }
    if (tries or minutes is not None) and not (here and tries):
        raise UsageError("--try is of this machine: write --here --try, and --minutes with it")
    if here:
        if candidates is not None:
            raise UsageError("--here is of this machine alone: leave out --candidates")
        _answer_here(
            script or model,
            html,
            as_json,
            batch_size=batch,
            try_minutes=(MINUTES if minutes is None else minutes) if tries else None,
            history=history,
            out=out,
            **code,
            **options,
        )
        return
    said: dict[str, Any] = {"objective": objective, **code}
    with ProgressLine(quiet=as_json) as show:
        done = recommend(
            script or model,
            examples=examples,
            epochs=epochs,
            steps=steps,
            batch_size=batch,
            deadline=deadline,
            budget=budget,
            max_power=max_power,
            candidates=candidates,
            precision=precision,
            prices=prices,
            market="spot" if spot else "on demand",
            provider=provider,
            region=region,
            show=show,
            **said,
            **options,
        )
    typer.echo(json_text(done.to_json()) if as_json else done.to_text(most))
    if html is not None:
        write_page(html, done.to_html())
        if not as_json:
            typer.echo(f"\n{html.resolve()}")


def _answer_here(what: Any, html: Path | None, as_json: bool, **asked: Any) -> None:
    """Print the suggestions; status 1 where a trial was interrupted."""
    from trainload.api.recommending import recommend_here
    from trainload.cli.progress import ProgressLine

    with ProgressLine(quiet=as_json) as show:
        advice = recommend_here(what, show=show, **asked)
    typer.echo(json_text(advice.to_json()) if as_json else advice.to_text())
    if html is not None:
        write_page(html, advice.to_html())
        if not as_json:
            typer.echo(f"\n{html.resolve()}")
    if advice.trial is not None and advice.trial.interrupted:
        raise typer.Exit(1)
