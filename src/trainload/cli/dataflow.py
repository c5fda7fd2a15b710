"""`trainload dataflow`: what layers cost on a spatial accelerator, by what stays where."""

from __future__ import annotations

import typer

EPILOG = """\b
Examples:
  trainload dataflow --published
  trainload dataflow alexnet --batch 16
  trainload dataflow resnet50 --pes 1024 --registers 256 --json
  trainload dataflow vgg16 --batch 1 --energy dram=100"""


def dataflow_verb(
    model: str | None = typer.Argument(None, help="A built-in model; see trainload models."),
    published: bool = typer.Option(
        False, "--published", help="The published comparison's AlexNet, beside its relations."
    ),
    batch: int = typer.Option(16, min=1, help="Images that pass together."),
    pes: int | None = typer.Option(None, min=1, help="Processing elements; default 256."),
    registers: int | None = typer.Option(
        None, min=0, metavar="BYTES", help="Registers of an element under row stationary."
    ),
    buffer: int | None = typer.Option(
        None, min=1, metavar="BYTES", help="Buffer under row stationary; default as all registers."
    ),
    energy: list[str] = typer.Option(
        [], metavar="LEVEL=RATIO", help="Of mac, register, array, buffer or dram; repeatable."
    ),
    classes: int | None = typer.Option(None, help="Classes to tell apart."),
    input_shape: str | None = typer.Option(
        None, "--input", metavar="SHAPE", help="Shape of one example, such as 3x224x224."
    ),
    words: list[str] = typer.Option(
        [], "--set", metavar="NAME=VALUE", help="Any option of the model; repeatable."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """Tell energy and data movement of each convolution and fully connected layer.

    On an array of elements with registers, a buffer and memory outside, with weights, outputs or
    rows staying in the elements, or nothing; each by the cheapest mapping that fits, all in the
    same area. Energies are in those of one multiply-add.
    """
    from trainload.api.dataflows import dataflow
    from trainload.cli.model_words import parse_model_words
    from trainload.cli.printing import json_text
    from trainload.errors import UsageError
    from trainload.report.dataflow.terminal import dataflows_json, render_dataflows

    if (model is None) != published:
        raise UsageError("name one model, such as alexnet, or give --published alone")
    if model is None and (classes is not None or input_shape is not None or words):
        raise UsageError("--published has fixed layers; --classes, --input, --set need a model")
    options = {} if model is None else parse_model_words(model, classes, input_shape, words)
    found = dataflow(
        model,
        batch_size=batch,
        elements=pes,
        register_bytes=registers,
        buffer_bytes=buffer,
        energy=_ratios(energy),
        **options,
    )
    if as_json:
        typer.echo(json_text(dataflows_json(found)))
    else:
        typer.echo(render_dataflows(found, beside_published=published))


def _ratios(words: list[str]) -> dict[str, float]:
    from trainload.errors import UsageError

    found = {}
    for word in words:
        name, _, value = word.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            raise UsageError(f"--energy {word}: write LEVEL=RATIO, such as dram=200") from None
    return found
