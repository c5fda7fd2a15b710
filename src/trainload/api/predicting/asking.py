"""The prediction of a training as one function; asks the rooms and prints nothing."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from trainload.api.estimating.asking import LIMIT_S
from trainload.api.estimating.memory import KnownTraces, MemoryQuestion
from trainload.api.estimating.sources import ModuleSource, ScriptSource, Source, find_source
from trainload.api.estimating.study import choose_optimizer
from trainload.api.predicting.costs import find_terms, with_costs
from trainload.api.predicting.devices import find_devices, find_here
from trainload.api.predicting.kept import correct, keep
from trainload.api.predicting.measured import (
    Measured,
    apply_measured,
    check_measurable,
    run_steps,
)
from trainload.api.predicting.recorded import find_recorded
from trainload.api.predicting.result import Length, Prediction, Predictions, rank_predictions
from trainload.api.predicting.stepping import PRECISIONS, predict_one
from trainload.checked import Bounds, check_value, suggest
from trainload.errors import UsageError
from trainload.estimate.counts.answer import StepChoice
from trainload.estimate.memory.device import find_device_memory
from trainload.hardware.catalogue import Device
from trainload_worker.protocol.training import OptimizerName, Precision

if TYPE_CHECKING:
    from trainload.workload import Optimizer

_Count = Annotated[int, Bounds(low=1, high=10**5)]
_Many = Annotated[int, Bounds(low=1, high=10**12)]
_Steps = Annotated[int, Bounds(low=2, high=10**4)]
_Batch = Annotated[int, Bounds(low=1, high=10**8)]


def predict(
    what: str | Path | Any,
    *,
    device: str | Path | Device | list[Any] | tuple[Any, ...],
    batch_size: int | None = None,
    precision: str | None = None,
    optimizer: OptimizerName | Optimizer | None = None,
    momentum: float = 0.9,
    count: int = 1,
    bus_bytes_per_s: float | None = None,
    steps: int | None = None,
    examples: int | None = None,
    epochs: int | None = None,
    prices: str | Path | None = None,
    market: str = "on demand",
    provider: str | None = None,
    place: str | None = None,
    pue: float | None = None,
    loss: Callable[[], Any] | None = None,
    script: bool | None = None,
    arguments: Sequence[str] = (),
    python: str | None = None,
    limit_s: float = LIMIT_S,
    measure: int | None = None,
    out: str | Path = "runs",
    history: str | Path | None = "runs",
    show: Callable[[str], None] | None = None,
    **model_options: Any,
) -> Prediction | Predictions:
    """How long a training takes on a device, with what energy; the device is not needed.

    `what` is what `trainload.estimate` takes, or a run directory, whose batch, precision and
    optimizer are meant unless others are named.

    - `device`: of the catalogue, or the path of one as JSON; a list of them gives `Predictions`,
      fastest first.
    - `precision`: float32, tf32 (products of float32 in TF32), bf16 or fp16 (autocast).
    - `batch_size`: of each device; `count`: devices of the kind that train together.
    - `bus_bytes_per_s`: of their exchange of gradients, where you know it.
    - `steps`, or `examples` of one epoch and `epochs`: for the whole training.

    - `prices`: a file of yours in place of the shipped ones; `market`: on demand or spot;
      `provider`: of the instances; `place`: a country or region, for emissions, with `pue`.
    - `measure`: so many real steps on this machine first, kept as a run in `out`, by which the
      others are rescaled; a script runs as it stands, for at most `limit_s`.
    - `history`: a folder of runs; those that were predicted correct this prediction, unless
      steps are measured. None: none do.

    A prediction of a model, graph or script for one device is kept, for the scorecard of the day
    it is run there.

    TrainloadError where something cannot be meant or the user's own code cannot be traced. A
    device that lacks a figure, and a step that does not fit, have no time; `missing` says why.
    """
    from trainload.api.predicting.predictors import begin_predictors, check_parts

    check_parts("predictions")
    recorded = find_recorded(what)
    if recorded is not None:
        source: Source = recorded.source
        batch_size = batch_size or recorded.batch_size
        precision = precision or recorded.precision
        optimizer = optimizer or recorded.optimizer
    else:
        source = find_source(
            what, loss=loss, script=script, arguments=arguments, options=model_options
        )
    chosen = precision or "float32"
    if chosen not in PRECISIONS:
        raise UsageError(f"unknown precision {chosen!r}{suggest(chosen, PRECISIONS)}")
    count = check_value(_Count, count, "count")
    choice = StepChoice(
        batch_size=_batch(batch_size, source),
        precision=_traced(chosen),
        optimizer=choose_optimizer(optimizer or "adam", momentum),
    )
    length = _length(steps, examples, epochs, choice.batch_size, count, source)
    terms = find_terms(prices=prices, market=market, provider=provider, place=place, pue=pue)
    several = isinstance(device, list | tuple)
    devices = find_devices(list(device) if isinstance(device, list | tuple) else [device])
    here = None
    if measure is not None:
        check_measurable(source, chosen)
        here = find_here(devices)
    interpreter, known = _interpreter(source, python), KnownTraces()
    predictors = begin_predictors(beside=interpreter is not None)

    def ask(one: Device, together: int) -> Prediction:
        question = MemoryQuestion(
            source=source,
            choice=choice,
            device=one,
            memory=find_device_memory(one),
            python=interpreter,
            limit_s=limit_s,
            what_if=False,
            show=show,
            known=known,
        )
        return predict_one(
            question,
            one,
            chosen,
            count=together,
            length=length,
            bus=bus_bytes_per_s,
            predictors=predictors,
        )

    found = [ask(one, count) for one in devices]
    if here is not None and measure is not None:
        predicted = ask(here.device, 1)
        if predicted.step is None:
            raise UsageError(f"--measure: no time is predicted here: {predicted.missing}")
        keep(predicted, source)
        from trainload.run.calibration.quiet import find_disturbance_here

        disturbed = find_disturbance_here()
        seconds = run_steps(
            source,
            choice,
            steps=check_value(_Steps, measure, "measure"),
            python=interpreter or sys.executable,
            limit_s=limit_s,
            out=out,
            show=show,
        )
        measured = Measured(here=here, predicted=predicted, seconds=seconds, disturbed=disturbed)
        found = [apply_measured(one, measured) for one in found]
    elif history is not None:
        found = [correct(one, Path(history)) for one in found]
    for one in found:
        keep(one, source)
    priced = [with_costs(one, terms) for one in found]
    return rank_predictions(priced) if several else priced[0]


def _traced(precision: str) -> Precision:
    """TF32 is float32 to whoever traces: the switch is the device's."""
    return "bf16" if precision == "bf16" else "fp16" if precision == "fp16" else "float32"


def _interpreter(source: Source, python: str | None) -> str | None:
    if isinstance(source, ModuleSource):
        return None
    from trainload.run import ready_interpreter

    return ready_interpreter("torch", python)


def _batch(batch_size: int | None, source: Source) -> int | None:
    if batch_size is None:
        return None if isinstance(source, ModuleSource) else 1
    found: int = check_value(_Batch, batch_size, "batch_size")
    return found


def _length(
    steps: int | None,
    examples: int | None,
    epochs: int | None,
    batch: int | None,
    count: int,
    source: Source,
) -> Length | None:
    """The whole training; None where neither steps nor examples were named."""
    if steps is not None:
        if examples is not None or epochs is not None:
            raise UsageError("--steps says it all: leave out --examples and --epochs")
        return Length(steps=check_value(_Many, steps, "steps"), epochs=None)
    if examples is None:
        if epochs is not None:
            raise UsageError("--epochs needs --examples, those of one epoch")
        return None
    if isinstance(source, ScriptSource) or batch is None:
        raise UsageError(f"{source.title} has its own batch: name --steps instead of --examples")
    each: int = check_value(_Many, examples, "examples")
    turns: int = check_value(_Many, 1 if epochs is None else epochs, "epochs")
    return Length(steps=math.ceil(each / (batch * count)) * turns, epochs=turns)
