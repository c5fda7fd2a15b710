"""`trainload estimate`: whether a training step fits, why, what would help; counts and bounds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainload.report.counts.terminal import Counted, Estimated, Study
    from trainload.api.estimating.sources import Source, StepChoice
    from trainload.estimate.memory.device import Target
    from trainload.hardware.catalogue import Device
    from trainload.workload import LayerGraph, Optimizer, ScriptWorkload, Workload
    from trainload.workload.spec import Precision

LIMIT_S = 120.0
EPILOG = """\b
Examples:
  trainload estimate resnet152 --batch 4 --device jetson-tx2
  trainload estimate my.py:build --batch 64 --optimizer adamw --precision bf16 --device h200
  trainload estimate --script train.py --device rtx-4090 -- --epochs 3
  trainload estimate vgg16 --batch 256 --device t4 --html fits.html
  trainload estimate resnet50 --batch 32 --device a10 --what-if --json
  trainload estimate mlp --batch 512 --samples 80909 --layers 5 --counts
  trainload estimate alexnet --classes 10 --input 3x224x224 --device ./mine.json
  trainload estimate resnet18 --batch 16 --measure
  trainload estimate --samples 80909 --inputs 75 --outputs 10 --weights 569354"""


@dataclass(frozen=True, kw_only=True)
class _Cells:
    """Study R's η: memory cells for one of each."""

    datum: float
    weight: float
    variable: float


def estimate_verb(
    model: str | None = typer.Argument(
        None,
        help="A built-in model, the path of a layer graph as JSON, or a function in your file, "
        "such as my.py:build; none for numbers alone.",
    ),
    arguments: list[str] = typer.Argument(None, help="The script's own arguments, after --."),
    batch: int = typer.Option(1, help="Examples in a step.", min=1, max=10**8),
    optimizer: str = typer.Option("adam", help="sgd, adam, adamw, rmsprop or adagrad."),
    momentum: float = typer.Option(0.9, help="Of sgd; 0 for plain SGD."),
    precision: str = typer.Option("float32", help="float32, or bf16 for autocast."),
    device: str | None = typer.Option(
        None, help="A device of the catalogue, or the path of your own as JSON."
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
    bytes kept and moved, bounds on memory and time, and study R's expressions.

    A function in your file takes the batch size and returns the module and a function without
    arguments that gives the loss of one batch.
    """
    from trainload.api.estimating.memory import MemoryQuestion, answer_memory
    from trainload.report.counts.terminal import (
        Estimated,
        estimated_json,
        render_estimated,
        render_head,
        render_study,
        study_json,
    )
    from trainload.api.estimating.sources import GraphSource, ScriptSource, StepChoice
    from trainload.errors import UsageError
    from trainload.hardware.catalogue import find_device

    cells = _Cells(datum=cells_datum, weight=cells_weight, variable=cells_variable)
    rule = _optimizer(optimizer, momentum)
    numbers = {"--inputs": inputs, "--outputs": outputs, "--weights": weights}
    if model is None and script is None:
        if device or classes is not None or input_shape or words or batch != 1:
            raise UsageError("name a model for this, as in: trainload estimate resnet152 --batch 4")
        study = _study_of_numbers({"--samples": samples, **numbers}, variables, rule, cells)
        typer.echo(_dump(study_json(study)) if as_json else render_study(study))
        return
    needless = [name for name, value in numbers.items() if value is not None]
    if needless:
        raise UsageError(
            f"{', '.join(needless)}: {model or script} has its own; leave out the model or these"
        )
    source = _source(model, script, arguments or [], classes, input_shape, words)
    choice = StepChoice(batch_size=batch, precision=_precision(precision), optimizer=rule)
    known = find_device(device) if device is not None else None
    counted = None
    if isinstance(source, GraphSource):
        study = _study_of_graph(source.graph, samples, variables, rule, cells)
        counted = _count(source.graph, choice, known, study)
    answer = answer_memory(
        MemoryQuestion(
            source=source,
            choice=choice,
            device=known,
            target=_target(target),
            python=python,
            limit_s=limit_s,
            counts_alone=counts,
            what_if=what_if,
            measure=measure,
            out=out,
            progress=not as_json,
        )
    )
    chosen = None if isinstance(source, ScriptSource) else choice
    done = Estimated(
        memory=answer,
        head=render_head(source.title, chosen),
        device=known,
        choice=chosen,
        counted=counted,
    )
    document = estimated_json(done)
    _keep(done, source, document)
    typer.echo(_dump(document) if as_json else render_estimated(done, layers))
    if html is not None:
        _write_html(done, html, as_json)


def _source(
    model: str | None,
    script: str | None,
    arguments: list[str],
    classes: int | None,
    input_shape: str | None,
    words: list[str],
) -> Source:
    from trainload.api.estimating.sources import ScriptSource, read_source
    from trainload.errors import UsageError
    from trainload.workload.script import script_workload

    if script is None:
        assert model is not None
        if arguments:
            raise UsageError(
                f"{arguments[0]!r}: only a script takes arguments: --script train.py -- …"
            )
        return read_source(model, classes, input_shape, words)
    if classes is not None or input_shape is not None or words:
        raise UsageError("--classes, --input and --set are for built-in models, not for a script")
    # What stands after -- is the script's, the first word included.
    return ScriptSource(script=script_workload(script, [*([model] if model else []), *arguments]))


def _target(text: str | None) -> Target | None:
    from trainload.errors import UsageError

    if text not in (None, "cuda", "cpu"):
        raise UsageError(f"--target {text}: must be cuda or cpu")
    return cast("Target | None", text)


def _keep(done: Estimated, source: Source, document: Mapping[str, Any]) -> None:
    """Keep what was traced until its workload is run; that a disk refuses is no reason to fail."""
    from contextlib import suppress

    from trainload.api.estimating.sources import BuildSource, GraphSource
    from trainload.errors import RecordError
    from trainload.record.estimates import keep_estimate
    from trainload.workload.identity import workload_identity

    memory, choice = done.memory, done.choice
    if (memory.estimate is None and memory.ram is None) or isinstance(source, BuildSource):
        return
    step: Workload | ScriptWorkload
    if choice is None:
        assert not isinstance(source, GraphSource)
        step = source.script
    else:
        assert isinstance(source, GraphSource)
        step = source.step(choice)
    name = done.device.name if done.device is not None else None
    with suppress(RecordError):
        keep_estimate(workload_identity(step, target=memory.target, device=name), document)


def _write_html(done: Estimated, path: Path, as_json: bool) -> None:
    from trainload.cli.printing import write_page
    from trainload.report.memory.html import render_memory_html

    write_page(path, render_memory_html(done.memory, done.head))
    if not as_json:
        typer.echo(f"\n{path.resolve()}")


def _dump(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False)


def _count(graph: LayerGraph, choice: StepChoice, device: Device | None, study: Study) -> Counted:
    from trainload.report.counts.terminal import Counted
    from trainload.estimate import estimate_memory_bound, estimate_step, estimate_time_bound

    step = estimate_step(
        graph,
        batch_size=choice.batch_size,
        precision=choice.precision,
        optimizer=choice.optimizer,
    )
    return Counted(
        step=step,
        bound=estimate_memory_bound(step, device),
        time=estimate_time_bound(step, device) if device is not None else None,
        study=study,
    )


def _optimizer(name: str, momentum: float) -> Optimizer:
    from trainload.checked import build_checked
    from trainload.workload import Optimizer

    return build_checked(Optimizer, {"name": name, "momentum": momentum}, "optimizer")


def _precision(text: str) -> Precision:
    from trainload.checked import suggest
    from trainload.errors import UsageError

    if text not in ("float32", "bf16"):
        raise UsageError(f"unknown precision {text!r}{suggest(text, ['float32', 'bf16'])}")
    return cast("Precision", text)


def _study_of_graph(
    graph: LayerGraph, samples: int | None, variables: int | None, rule: Optimizer, cells: _Cells
) -> Study:
    from dataclasses import replace
    from math import prod

    from trainload.report.counts.terminal import Study
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
    from trainload.report.counts.terminal import Study
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
