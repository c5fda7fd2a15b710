"""`trainload estimate`: whether a training step fits, why, what would help; counts and bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from trainload.cli.completing import complete_devices, complete_model
from trainload.cli.printing import json_text

LIMIT_S = 120.0
_FOR_MODELS = "--classes, --input and --set are for built-in models, not for {}"
EPILOG = """\b
Examples:
  trainload estimate resnet152 --batch 4 --device jetson-tx2
  trainload estimate my.py:build --batch 64 --optimizer adamw --precision bf16 --device h200
  trainload estimate --script train.py --device rtx-4090 -- --epochs 3
  trainload estimate vgg16 --batch 256 --device t4 --html fits.html
  trainload estimate resnet50 --batch 32 --device a10 --what-if --json
  trainload estimate resnet50 --batch 64 --device t4,a10,rtx-4090,h200
  trainload estimate mlp --batch 512 --samples 80909 --layers 5 --counts
  trainload estimate alexnet --classes 10 --input 3x224x224 --device ./mine.json
  trainload estimate resnet18 --batch 16 --measure
  trainload estimate --samples 80909 --inputs 75 --outputs 10 --weights 569354"""


def estimate_verb(
    model: str | None = typer.Argument(
        None,
        help="A built-in model, the path of a layer graph as JSON, or a function in your file, "
        "such as my.py:build; none for numbers alone.",
        autocompletion=complete_model,
    ),
    arguments: list[str] = typer.Argument(None, help="The script's own arguments, after --."),
    batch: int = typer.Option(1, help="Examples in a step.", min=1, max=10**8),
    optimizer: str = typer.Option("adam", help="sgd, adam, adamw, rmsprop or adagrad."),
    momentum: float = typer.Option(0.9, help="Of sgd; 0 for plain SGD."),
    precision: str = typer.Option(
        "float32", help="float32, or autocast: bf16, or fp16 with its gradient scaler."
    ),
    device: str | None = typer.Option(
        None,
        help="A device of the catalogue, or the path of your own as JSON; several with commas "
        "between them are ranked.",
        autocompletion=complete_devices,
    ),
    script: str | None = typer.Option(
        None, metavar="FILE", help="A torch script as it stands, in place of a model."
    ),
    target: str | None = typer.Option(
        None, help="cuda or cpu: whose choices the step makes; default what the device is."
    ),
    counts: bool = typer.Option(
        False, "--counts", help="Counts and bounds alone, in milliseconds: nothing is traced."
    ),
    what_if: bool | None = typer.Option(
        None,
        "--what-if/--no-what-if",
        help="Try what would help; default where the step does not surely fit.",
    ),
    measure: bool = typer.Option(
        False, "--measure", help="Run a few real steps on this machine instead of tracing."
    ),
    out: Path = typer.Option(Path("runs"), help="Folder for the run of --measure."),
    limit_s: float = typer.Option(LIMIT_S, help="Seconds that tracing one step may take."),
    python: str | None = typer.Option(
        None, help="Interpreter that has torch; default its environment."
    ),
    html: Path | None = typer.Option(None, help="Write the answer as one HTML file as well."),
    layers: int = typer.Option(10, help="Costliest layers to show.", min=0),
    classes: int | None = typer.Option(None, help="Classes to tell apart."),
    input_shape: str | None = typer.Option(
        None, "--input", metavar="SHAPE", help="Shape of one example, such as 3x224x224."
    ),
    words: list[str] = typer.Option(
        [], "--set", metavar="NAME=VALUE", help="Any option of the model; repeatable."
    ),
    samples: int | None = typer.Option(None, help="S: examples in the training sample."),
    inputs: int | None = typer.Option(None, help="N: input features, without a model."),
    outputs: int | None = typer.Option(None, help="N_M: output features, without a model."),
    weights: int | None = typer.Option(None, help="N_w: weights and thresholds, without a model."),
    variables: int | None = typer.Option(
        None, help="N_v: variables of the algorithm; default gradients and optimizer state."
    ),
    cells_datum: float = typer.Option(1, help="η_b: memory cells for a number of the data."),
    cells_weight: float = typer.Option(1, help="η_w: memory cells for a weight."),
    cells_variable: float = typer.Option(1, help="η_v: memory cells for a variable."),
    as_json: bool = typer.Option(False, "--json", help="Print as JSON, with every layer."),
) -> None:
    """Will a training step fit, why, and what would help? No GPU is needed.

    The step is traced on tensors without numbers, in torch's own environment, and replayed through
    a simulation of torch's allocator. A model of our own has counts as well: parameters, FLOPs,
    bytes kept and moved, bounds on memory and time, and the expressions of Jamgharyan (2024).

    A function in your file takes the batch size and returns the module and a function without
    arguments that gives the loss of one batch.
    """
    from trainload.api.estimating import Estimate, Estimates, estimate
    from trainload.cli.printing import write_page
    from trainload.cli.progress import ProgressLine
    from trainload.errors import UsageError
    from trainload.estimate.counts.answer import Cells

    study: dict[str, Any] = {
        "variables": variables,
        "cells": Cells(datum=cells_datum, weight=cells_weight, variable=cells_variable),
        "optimizer": optimizer,
        "momentum": momentum,
    }
    numbers = {"inputs": inputs, "outputs": outputs, "weights": weights}
    if model is None and script is None:
        if device or classes is not None or input_shape or words or batch != 1:
            raise UsageError("name a model for this, as in: trainload estimate resnet152 --batch 4")
        _print_study({"samples": samples, **numbers}, study, as_json)
        return
    needless = [f"--{name}" for name, value in numbers.items() if value is not None]
    if needless:
        raise UsageError(
            f"{', '.join(needless)}: {model or script} has its own; leave out the model or these"
        )
    options = model_options(model, script, arguments or [], classes, input_shape, words)
    if script is not None:
        # What stands after -- is the script's, the first word included.
        arguments = [*([model] if model else []), *(arguments or [])]
    chosen = named_devices(device)
    if html is not None and isinstance(chosen, list):
        raise UsageError("--html shows one device: name one alone")
    said: dict[str, Any] = {"precision": precision, "target": target, "device": chosen}
    with ProgressLine(quiet=as_json) as show:
        done: Estimate | Estimates = estimate(
            script or model,
            script=script is not None,
            arguments=arguments or [],
            batch_size=batch,
            what_if=what_if,
            counts_only=counts,
            measure=measure,
            samples=samples,
            python=python,
            limit_s=limit_s,
            out=out,
            show=show,
            **said,
            **study,
            **options,
        )
    if isinstance(done, Estimates):
        typer.echo(_dump(done.to_json()) if as_json else done.to_text())
        return
    typer.echo(_dump(done.to_json()) if as_json else done.to_text(layers))
    if html is not None:
        write_page(html, done.to_html())
        if not as_json:
            typer.echo(f"\n{html.resolve()}")


def named_devices(text: str | None) -> str | list[str] | None:
    """One device, or several where commas stand between names; a file's own comma is its own."""
    if text is None or "," not in text or Path(text).is_file():
        return text
    return [name for part in text.split(",") if (name := part.strip())]


def _print_study(numbers: dict[str, int | None], study: dict[str, Any], as_json: bool) -> None:
    from trainload.api.estimating import estimate_study
    from trainload.api.estimating.document import study_json
    from trainload.errors import UsageError
    from trainload.report.counts.terminal import render_study

    lacking = [f"--{name}" for name, value in numbers.items() if value is None]
    if lacking:
        listed = ", ".join(lacking)
        raise UsageError(f"name a model, or give Jamgharyan's numbers as well: {listed}")
    given: dict[str, Any] = {name: value or 0 for name, value in numbers.items()}
    found = estimate_study(**given, **study)
    typer.echo(_dump(study_json(found)) if as_json else render_study(found))


def model_options(
    model: str | None,
    script: str | None,
    arguments: list[str],
    classes: int | None,
    input_shape: str | None,
    words: list[str],
) -> dict[str, Any]:
    """The words of a built-in model as typed values; UsageError where they are for none."""
    from trainload.cli.model_words import parse_model_words
    from trainload.errors import UsageError

    chosen = classes is not None or input_shape is not None or bool(words)
    if script is not None or model is None:
        if chosen:
            raise UsageError(_FOR_MODELS.format("a script"))
        return {}
    if arguments:
        raise UsageError(f"{arguments[0]!r}: only a script takes arguments: --script train.py -- …")
    if model.endswith(".py"):
        raise UsageError(
            f"{model}: name a function in it, such as {Path(model).name}:build, "
            f"or estimate the script as it stands: --script {model}"
        )
    if not chosen:
        return {}
    if ".py:" in model:
        raise UsageError(_FOR_MODELS.format(model))
    if model.endswith(".json"):
        raise UsageError(f"{model} is a finished graph: --classes, --input and --set change none")
    return parse_model_words(model, classes, input_shape, words)


def _dump(document: dict[str, Any]) -> str:
    return json_text(document)
