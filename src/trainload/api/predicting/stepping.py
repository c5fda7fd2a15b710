"""One step on one device: looks up calibrations, makes works of the trace, asks `predict`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from trainload.api.estimating.memory import MemoryQuestion, answer_memory
from trainload.api.estimating.sources import ScriptSource
from trainload.api.predicting.result import Length, Prediction
from trainload_worker.protocol.training import HALVES

if TYPE_CHECKING:
    from trainload.api.predicting.predictors import Predictors
    from trainload.estimate.memory.answer import MemoryAnswer
    from trainload.estimate.memory.op_trace import Event
    from trainload.hardware.catalogue import Device
    from trainload.predict.types import StepPrediction

PRECISIONS = ("float32", "tf32", *HALVES)
_DTYPES = {"float32": "float32", "tf32": "tf32", "bf16": "bfloat16", "fp16": "float16"}


def predict_one(
    question: MemoryQuestion,
    device: Device,
    precision: str,
    *,
    count: int,
    length: Length | None,
    bus: float | None,
    predictors: Callable[[], Predictors],
) -> Prediction:
    """What the model says of one device; its step is missing, with the reason, where it cannot."""
    memory = answer_memory(question)
    ready = predictors()
    traced = question.known.find(question.memory)
    script = isinstance(question.source, ScriptSource)
    missing = memory.missing or _lacking(device, precision)
    step = None
    estimate = memory.estimate
    if missing is None and estimate is not None and estimate.verdict == "does not fit":
        missing = "the step does not fit, so it has no time"
    if missing is None and traced is not None:
        step, missing = _step(device, traced.events, precision, (count, bus), memory, ready)
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
    predictors: Predictors,
) -> tuple[StepPrediction | None, str | None]:
    from trainload.estimate.counts.operations import lacking_operands
    from trainload.predict.limits import lacking_limits, limits_of, usable_dtype
    from trainload.predict.operations import works_of
    from trainload.predict.step import predict_step

    limits = limits_of(device)
    if limits is None:
        return None, lacking_limits(device)
    lacking_name = lacking_operands(events)
    if lacking_name is not None:
        return None, (
            f"the trace does not tell all operands of {lacking_name}, as of a script on a CPU; "
            "put the step into a function, such as my.py:build"
        )
    works = works_of(events, tf32=precision == "tf32")
    if not works:
        return None, "the trace holds no operation on the device"
    lacking = {work.dtype for work in works if usable_dtype(work.dtype, limits) is None}
    if lacking:
        return None, f"the entry of {device.name} states no peak in {', '.join(sorted(lacking))}"
    asked = replace(
        predictors.ask(works, device, limits),
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
