"""`trainload models`: the networks that are built in, and one of them layer by layer."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from trainload.cli.completing import complete_model
from trainload.cli.printing import json_text

if TYPE_CHECKING:
    from trainload.workload import LayerGraph

EPILOG = """\b
Examples:
  trainload models
  trainload models alexnet --classes 1000
  trainload models resnet50 --input 3x128x128 --batch 32 --json
  trainload models conv_residual --set stages=4 --set width=32"""


def models_verb(
    name: str | None = typer.Argument(
        None, help="A model to show; default a list of all.", autocompletion=complete_model
    ),
    classes: int | None = typer.Option(None, help="Classes to tell apart."),
    input_shape: str | None = typer.Option(
        None, "--input", metavar="SHAPE", help="Shape of one example, such as 3x224x224."
    ),
    batch: int = typer.Option(1, help="Examples that the FLOPs are counted for.", min=1),
    words: list[str] = typer.Option(
        [], "--set", metavar="NAME=VALUE", help="Any option of the model; repeatable."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """List the built-in models, or show one: its layers, shapes, parameters and FLOPs.

    FLOPs are those of the forward pass, two for a multiply-add, and of convolutions, matrix
    products and attention alone, as torch's FlopCounterMode counts them. No framework is needed.
    """
    from trainload.errors import UsageError

    if name is None:
        if classes is not None or input_shape is not None or words or batch != 1:
            raise UsageError("name the model whose options these are, as in: trainload models mlp")
        typer.echo(_list_json() if as_json else _render_list())
        return
    from trainload.cli.model_words import parse_model_words
    from trainload.workload import build_model, find_model

    options = find_model(name).options(**parse_model_words(name, classes, input_shape, words))
    graph = build_model(name, options)
    shown = _model_json if as_json else _render_model
    typer.echo(shown(name, asdict(options), graph, batch))


def _list_json() -> str:
    return json_text({"models": _list_models()})


def _list_models() -> list[dict[str, Any]]:
    from trainload.workload import MODELS, build_model

    rows = []
    for name, model in MODELS.items():
        options = model.options()
        graph = build_model(name, options)
        rows.append(
            {
                "name": name,
                "parameters": graph.parameters,
                "flop_forward": graph.flop_forward,
                "input_shape": list(graph.input_shape),
                "output_shape": list(graph.output_shape),
                "options": asdict(options),
                "source": model.source,
                "year": model.year,
            }
        )
    return rows


def _render_list() -> str:
    from trainload.columns import render_columns
    from trainload.units import render_flop

    rows = [
        (
            row["name"],
            f"{row['parameters']:,}",
            render_flop(row["flop_forward"]),
            _shape(row["input_shape"]),
            str(row["year"]),
            row["source"],
        )
        for row in _list_models()
    ]
    titles = ("model", "parameters", "FLOPs forward", "input", "year", "source")
    return render_columns(titles, rows, right={1, 2})


def _model_json(name: str, options: dict[str, Any], graph: LayerGraph, batch: int) -> str:
    from trainload.workload import find_model

    model = find_model(name)
    document = {
        "name": name,
        "parameters": graph.parameters,
        "flop_forward": batch * graph.flop_forward,
        "batch": batch,
        "input_shape": list(graph.input_shape),
        "output_shape": list(graph.output_shape),
        "options": options,
        "source": model.source,
        "year": model.year,
        "layers": [
            {
                "name": layer.name,
                "kind": layer.kind,
                "inputs": list(layer.inputs),
                "attributes": dict(layer.attributes),
                "output_shape": list(layer.output_shape),
                "parameters": layer.parameters,
                "flop_forward": batch * layer.flop_forward,
            }
            for layer in graph.layers
        ],
    }
    return json_text(document)


def _render_model(name: str, options: dict[str, Any], graph: LayerGraph, batch: int) -> str:
    from trainload.columns import render_columns
    from trainload.units import render_flop
    from trainload.workload import find_model

    model = find_model(name)
    rows = [
        (
            layer.name,
            layer.kind,
            _shape(layer.output_shape),
            f"{layer.parameters:,}" if layer.parameters else "",
            render_flop(batch * layer.flop_forward) if layer.flop_forward else "",
        )
        for layer in graph.layers
    ]
    forward = f"{render_flop(batch * graph.flop_forward)} forward"
    total = f"{graph.parameters:,} parameters, {forward} for a batch of {batch}"
    return "\n".join(
        [
            f"{name}: {model.source} ({model.year})",
            "options: " + " ".join(f"{option}={value}" for option, value in options.items()),
            "",
            render_columns(("layer", "kind", "shape", "parameters", "FLOPs forward"), rows, {3, 4}),
            "",
            total,
        ]
    )


def _shape(shape: Any) -> str:
    return "×".join(map(str, shape))
