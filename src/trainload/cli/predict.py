"""`trainload predict`: time, energy and money of a training on devices that are not at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from trainload.cli.completing import complete_devices, complete_model
from trainload.cli.estimate import LIMIT_S, model_options, named_devices
from trainload.cli.printing import json_text, write_page

EPILOG = """\b
Examples:
  trainload predict resnet50 --batch 64 --device h200,a100-sxm4-80gb,rtx-3090,t4,jetson-tx2
  trainload predict resnet50 --batch 64 --device t4 --epochs 90 --examples 1281167
  trainload predict my.py:build --batch 16 --precision bf16 --device h200 --count 8
  trainload predict --script train.py --device rtx-4090 --steps 10000 -- --epochs 3
  trainload predict resnet18 --batch 16 --device t4,h200 --measure 10
  trainload predict runs/mlp-20260101-120000 --device h200 --json"""


def predict_verb(
    model: str | None = typer.Argument(
        None,
        help="A built-in model, the path of a layer graph as JSON, a function in your file such "
        "as my.py:build, or a run directory.",
        autocompletion=complete_model,
    ),
    arguments: list[str] = typer.Argument(None, help="The script's own arguments, after --."),
    device: str = typer.Option(
        ...,
        help="A device of the catalogue, or the path of your own as JSON; several with commas "
        "between them are ranked.",
        autocompletion=complete_devices,
    ),
    batch: int | None = typer.Option(
        None, help="Examples in a step of each device; default 1.", min=1, max=10**8
    ),
    precision: str | None = typer.Option(
        None, help="float32, tf32 for its products, or autocast: bf16, fp16; default float32."
    ),
    optimizer: str | None = typer.Option(
        None, help="sgd, adam, adamw, rmsprop or adagrad; default adam."
    ),
    momentum: float = typer.Option(0.9, help="Of sgd; 0 for plain SGD."),
    count: int = typer.Option(1, help="Devices that train together.", min=1),
    bus: float | None = typer.Option(
        None, "--bus-gb-per-s", help="Bus bandwidth of their exchange, if you know it.", min=0.001
    ),
    steps: int | None = typer.Option(None, help="Steps of the whole training.", min=1),
    examples: int | None = typer.Option(None, help="Examples of one epoch.", min=1),
    epochs: int | None = typer.Option(None, help="Epochs of the whole training.", min=1),
    prices: str | None = typer.Option(
        None, metavar="FILE", help="Prices of your own in place of the shipped ones."
    ),
    spot: bool = typer.Option(False, "--spot", help="Price spot instances, not those on demand."),
    provider: str | None = typer.Option(None, help="Whose instances to price."),
    place: str | None = typer.Option(None, help="Country or cloud region, for the emissions."),
    pue: float | None = typer.Option(None, help="Of the data centre, for the emissions."),
    script: str | None = typer.Option(
        None, metavar="FILE", help="A torch script as it stands, in place of a model."
    ),
    limit_s: float = typer.Option(LIMIT_S, help="Seconds that tracing one step may take."),
    python: str | None = typer.Option(
        None, help="Interpreter that has torch; default its environment."
    ),
    measure: int | None = typer.Option(
        None,
        metavar="N",
        help="Run N real steps on this machine first, and rescale what is predicted by them.",
        min=2,
        max=10**4,
    ),
    out: str = typer.Option("runs", help="Where the run of --measure is kept."),
    history: str = typer.Option(
        "runs", metavar="FOLDER", help="Runs that were predicted, which correct this prediction."
    ),
    no_history: bool = typer.Option(False, "--no-history", help="Past runs correct nothing."),
    layers: int = typer.Option(10, help="Longest layers to show.", min=0),
    classes: int | None = typer.Option(None, help="Classes to tell apart."),
    input_shape: str | None = typer.Option(
        None, "--input", metavar="SHAPE", help="Shape of one example, such as 3x224x224."
    ),
    words: list[str] = typer.Option(
        [], "--set", metavar="NAME=VALUE", help="Any option of the model; repeatable."
    ),
    html: Path | None = typer.Option(None, help="Write the answer as one HTML file as well."),
    as_json: bool = typer.Option(False, "--json", help="Print as JSON, with every layer."),
) -> None:
    """How long will a training take, with what energy, on which device? None is needed here.

    The step is traced on tensors without numbers; each operation's time comes from calibrations
    of the device, or is carried over from those of others. Every figure has a range and says what
    it rests on.
    """
    from trainload.api.predicting import Predictions, predict
    from trainload.cli.progress import ProgressLine
    from trainload.errors import UsageError

    if model is None and script is None:
        raise UsageError(
            "name what is trained, as in: trainload predict resnet50 --batch 64 --device t4"
        )
    options = model_options(model, script, arguments or [], classes, input_shape, words)
    if script is not None:
        arguments = [*([model] if model else []), *(arguments or [])]
    said: dict[str, Any] = {"optimizer": optimizer, "momentum": momentum, "count": count}
    with ProgressLine(quiet=as_json) as show:
        done = predict(
            script or model,
            device=named_devices(device) or [],
            batch_size=batch,
            precision=precision,
            steps=steps,
            bus_bytes_per_s=None if bus is None else bus * 1e9,
            examples=examples,
            epochs=epochs,
            prices=prices,
            market="spot" if spot else "on demand",
            provider=provider,
            place=place,
            pue=pue,
            script=True if script is not None else None,
            arguments=arguments or [],
            python=python,
            limit_s=limit_s,
            measure=measure,
            out=out,
            history=None if no_history else history,
            show=show,
            **said,
            **options,
        )
    if html is not None:
        write_page(html, done.to_html())
    if as_json:
        typer.echo(json_text(done.to_json()))
    elif isinstance(done, Predictions):
        typer.echo(done.to_text())
    else:
        typer.echo(done.to_text(layers))
    if html is not None and not as_json:
        typer.echo(f"\n{html.resolve()}")
