"""The prediction of a training as one function; asks the rooms and prints nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from trainload.api.estimating.asking import LIMIT_S
from trainload.api.estimating.memory import KnownTraces, MemoryQuestion, answer_memory
from trainload.api.estimating.sources import ModuleSource, ScriptSource, Source, find_source
from trainload.api.estimating.study import choose_optimizer
from trainload.api.predicting.costs import find_terms, with_costs
from trainload.api.predicting.recorded import find_recorded
from trainload.api.predicting.result import Length, Prediction, Predictions, rank_predictions
from trainload.checked import Bounds, check_value, suggest
from trainload.errors import MissingPart, UsageError
from trainload.estimate.counts.answer import StepChoice
from trainload.estimate.memory.device import find_device_memory
from trainload.hardware.catalogue import Device, find_device
from trainload_worker.protocol.training import HALVES, OptimizerName, Precision

if TYPE_CHECKING:
    from trainload.estimate.memory.answer import MemoryAnswer
    from trainload.estimate.memory.op_trace import Event
    from trainload.predict.types import StepPrediction
    from trainload.workload import Optimizer

PRECISIONS = ("float32", "tf32", *HALVES)
_DTYPES = {"float32": "float32", "tf32": "tf32", "bf16": "bfloat16", "fp16": "float16"}
_Count = Annotated[int, Bounds(low=1, high=10**5)]
_Many = Annotated[int, Bounds(low=1, high=10**12)]
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

    TrainloadError where something cannot be meant or the user's own code cannot be traced. A
    device that lacks a figure, and a step that does not fit, have no time; `missing` says why.
    """
    _check_parts()
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
    named = list(device) if isinstance(device, list | tuple) else [device]
    devices = [one if isinstance(one, Device) else find_device(str(one)) for one in named]
    if not devices:
        raise UsageError("device=[]: name at least one device; trainload devices lists them")
    known = KnownTraces()
    found = []
    for one in {each.name: each for each in devices}.values():
        question = MemoryQuestion(
            source=source,
            choice=choice,
            device=one,
            memory=find_device_memory(one),
            python=_interpreter(source, python),
            limit_s=limit_s,
            what_if=False,
            show=show,
            known=known,
        )
        done = _predict_one(question, one, chosen, count, length, bus_bytes_per_s)
        found.append(with_costs(done, terms))
    return rank_predictions(found) if several else found[0]


def _predict_one(
    question: MemoryQuestion,
    device: Device,
    precision: str,
    count: int,
    length: Length | None,
    bus: float | None,
) -> Prediction:
    memory = answer_memory(question)
    events = question.known.events(question.memory)
    script = isinstance(question.source, ScriptSource)
    missing = memory.missing or _lacking(device, precision)
    step = None
    estimate = memory.estimate
    if missing is None and estimate is not None and estimate.verdict == "does not fit":
        missing = "the step does not fit, so it has no time"
    if missing is None and events is not None:
        step, missing = _step(device, events, precision, (count, bus), memory)
    return Prediction(
        title=question.source.title,
        choice=None if script else question.choice,
        precision=None if script else precision,
        device=device,
        count=count,
        length=length,
        memory=memory,
        step=step,
        missing=missing,
    )


def _step(
    device: Device,
    events: Sequence[Event],
    precision: str,
    together: tuple[int, float | None],
    memory: MemoryAnswer,
) -> tuple[StepPrediction | None, str | None]:
    from trainload.api.predicting.predictors import Predictors
    from trainload.predict.limits import lacking_limits, limits_of, usable_dtype
    from trainload.predict.operations import works_of
    from trainload.predict.step import predict_step

    limits = limits_of(device)
    if limits is None:
        return None, lacking_limits(device)
    works = works_of(events, tf32=precision == "tf32")
    if not works:
        return None, "the trace holds no operation on the device"
    lacking = {work.dtype for work in works if usable_dtype(work.dtype, limits) is None}
    if lacking:
        return None, f"the entry of {device.name} states no peak in {', '.join(sorted(lacking))}"
    asked = replace(
        Predictors().ask(works, device, limits),
        count=together[0],
        bus_bytes_per_s=together[1],
        gradient_bytes=4.0 * (memory.parameters or 0),
    )
    return predict_step(asked), None


def _lacking(device: Device, precision: str) -> str | None:
    """Why a device cannot be asked about this precision; None where it can."""
    from trainload.predict.limits import lacking_limits, limits_of

    limits = limits_of(device)
    if limits is None:
        return lacking_limits(device)
    if _DTYPES[precision] not in limits.peaks:
        return (
            f"the entry of {device.name} states no peak in {precision}: "
            f"it has {', '.join(name for name in PRECISIONS if _DTYPES[name] in limits.peaks)}"
        )
    return None


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


def _check_parts() -> None:
    """Calibrations are searched with numpy and scipy, of the reports' part."""
    try:
        import numpy  # noqa: F401
        import scipy.spatial  # noqa: F401
    except ImportError as error:
        raise MissingPart(
            f"predictions need {error.name}: pip install 'trainload[report]'"
        ) from None
