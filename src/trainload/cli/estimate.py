"""`trainload estimate`: counts, bounds and study R's expressions, without running anything."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainload.cli.estimate_shown import Estimated, Study
    from trainload.estimate import StepEstimate
    from trainload.workload import LayerGraph, Optimizer
    from trainload.workload.spec import Precision

EPILOG = """\b
Examples:
  trainload estimate resnet152 --batch 4 --device jetson-tx2
  trainload estimate transformer_encoder --batch 64 --optimizer adamw --precision bf16
  trainload estimate mlp --batch 512 --samples 80909 --layers 5
  trainload estimate alexnet --classes 10 --input 3x224x224 --device ./mine.json --json
  trainload estimate --samples 80909 --inputs 75 --outputs 10 --weights 569354"""


@dataclass(frozen=True, kw_only=True)
class _Cells:
    """Study R's η: memory cells for one of each."""

    datum: float
    weight: float
    variable: float


def estimate_verb(
    model: str | None = typer.Argument(
        None, help="A built-in model, or the path of a layer graph as JSON; none for numbers alone."
    ),
    batch: int = typer.Option(1, help="Examples in a step.", min=1, max=10**8),
    optimizer: str = typer.Option("adam", help="sgd, adam, adamw, rmsprop or adagrad."),
    momentum: float = typer.Option(0.9, help="Of sgd; 0 for plain SGD."),
    precision: str = typer.Option("float32", help="float32, or bf16 for autocast."),
    device: str | None = typer.Option(
        None, help="A device of the catalogue, or the path of your own as JSON."
    ),
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
    """Estimate a training step before running it: counts, bounds, and study R's expressions.

    Parameters, FLOPs, bytes kept and moved, layer by layer, with a lower bound on memory and, for a
    device, the time by its roofline. A bound can show that a step does not fit, never that it does.
    No framework and no device is needed.
    """
    from trainload.cli.estimate_shown import (
        estimated_json,
        render_estimated,
        render_study,
        study_json,
    )
    from trainload.errors import UsageError
    from trainload.estimate import estimate_step

    cells = _Cells(datum=cells_datum, weight=cells_weight, variable=cells_variable)
    rule = _optimizer(optimizer, momentum)
    numbers = {"--inputs": inputs, "--outputs": outputs, "--weights": weights}
    if model is None:
        if device or classes is not None or input_shape or words or batch != 1:
            raise UsageError("name a model for this, as in: trainload estimate resnet152 --batch 4")
        study = _study_of_numbers({"--samples": samples, **numbers}, variables, rule, cells)
        typer.echo(_dump(study_json(study)) if as_json else render_study(study))
        return
    needless = [name for name, value in numbers.items() if value is not None]
    if needless:
        raise UsageError(
            f"{', '.join(needless)}: {model} has its own; leave out the model or these"
        )
    graph = _read_graph(model, classes, input_shape, words)
    study = _study_of_graph(graph, samples, variables, rule, cells)
    step = estimate_step(graph, batch_size=batch, precision=_precision(precision), optimizer=rule)
    done = _with_bounds(step, device, study)
    typer.echo(_dump(estimated_json(done)) if as_json else render_estimated(done, layers))


def _dump(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False)


def _with_bounds(step: StepEstimate, device: str | None, study: Study) -> Estimated:
    from trainload.cli.estimate_shown import Estimated
    from trainload.estimate import estimate_memory_bound, estimate_time_bound
    from trainload.hardware.catalogue import find_device

    known = find_device(device) if device is not None else None
    return Estimated(
        step=step,
        device=known,
        memory=estimate_memory_bound(step, known),
        time=estimate_time_bound(step, known) if known is not None else None,
        study=study,
    )


def _optimizer(name: str, momentum: float) -> Optimizer:
    from trainload.workload import Optimizer
    from trainload.workload.checked import build_checked

    return build_checked(Optimizer, {"name": name, "momentum": momentum}, "optimizer")


def _precision(text: str) -> Precision:
    from trainload.errors import UsageError
    from trainload.workload.checked import suggest

    if text not in ("float32", "bf16"):
        raise UsageError(f"unknown precision {text!r}{suggest(text, ['float32', 'bf16'])}")
    return cast("Precision", text)


def _read_graph(
    model: str, classes: int | None, input_shape: str | None, words: list[str]
) -> LayerGraph:
    from trainload.errors import UsageError
    from trainload.workload import build_model, input_words, parse_options, parse_words

    if model.endswith(".json"):
        if classes is not None or input_shape is not None or words:
            raise UsageError(
                f"{model} is a finished graph: --classes, --input and --set change none"
            )
        return _load_graph(Path(model))
    chosen = parse_words(words)
    if classes is not None:
        chosen["classes"] = str(classes)
    if input_shape is not None:
        chosen.update(input_words(model, input_shape))
    return build_model(model, parse_options(model, chosen))


def _load_graph(path: Path) -> LayerGraph:
    from trainload.errors import GraphError, WorkloadError
    from trainload.workload import graph_from_json

    try:
        return graph_from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise WorkloadError(f"cannot read the graph {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise WorkloadError(f"{path} is no JSON: {error}") from None
    except GraphError as error:
        raise WorkloadError(f"{path}: {error}") from None


def _study_of_graph(
    graph: LayerGraph, samples: int | None, variables: int | None, rule: Optimizer, cells: _Cells
) -> Study:
    from dataclasses import replace
    from math import prod

    from trainload.cli.estimate_shown import Study
    from trainload.estimate import estimate_complexity

    complexity = estimate_complexity(graph)
    if samples is None:
        return Study(complexity=complexity, cells=None, redundancy=None)
    numbers = {
        "--samples": samples,
        "--inputs": prod(graph.input_shape),
        "--outputs": prod(graph.output_shape),
        "--weights": graph.parameters,
    }
    study = _study_of_numbers(numbers, variables, rule, cells)
    return replace(study, complexity=complexity)


def _study_of_numbers(
    numbers: Mapping[str, int | None], variables: int | None, rule: Optimizer, cells: _Cells
) -> Study:
    from trainload.cli.estimate_shown import Study
    from trainload.errors import UsageError
    from trainload.estimate import (
        Sample,
        algorithm_variables,
        estimate_memory_cells,
        estimate_redundancy,
    )

    lacking = [name for name, value in numbers.items() if value is None]
    if lacking:
        raise UsageError(f"name a model, or give study R's numbers as well: {', '.join(lacking)}")
    samples, inputs, outputs, weights = (value or 0 for value in numbers.values())
    sample = Sample(samples=samples, inputs=inputs, outputs=outputs)
    memory = estimate_memory_cells(
        sample,
        weights=weights,
        variables=algorithm_variables(weights, rule) if variables is None else variables,
        cells_per_datum=cells.datum,
        cells_per_weight=cells.weight,
        cells_per_variable=cells.variable,
    )
    redundancy = estimate_redundancy(sample, weights=weights)
    return Study(complexity=None, cells=memory, redundancy=redundancy)
