"""The memory of a step for `trainload estimate`: traced, replayed, helped; prints nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainload.api.estimating.sources import GraphSource, ScriptSource
from trainload.errors import EnvironmentProblem, TrainloadError, UsageError
from trainload.estimate.memory.answer import MeasuredPeak, MemoryAnswer
from trainload.estimate.memory.device import DeviceMemory, find_device_memory

if TYPE_CHECKING:
    from trainload.api.estimating.sources import Source, StepChoice
    from trainload.api.estimating.tracing import Traced, Tracing
    from trainload.estimate.memory.device import Target
    from trainload.hardware.catalogue import Device

COUNTS_ALONE = "no step was traced: --counts"
SCRIPT_DECIDES = (
    "batch, precision and optimizer stand in the script: change them there and estimate again"
)


@dataclass(frozen=True, kw_only=True)
class MemoryQuestion:
    """What is asked about the memory of a step."""

    source: Source
    choice: StepChoice
    device: Device | None
    target: Target | None
    python: str | None
    limit_s: float
    counts_alone: bool
    what_if: bool | None
    """None: where the step does not surely fit."""
    measure: bool
    out: Path
    progress: bool


def answer_memory(question: MemoryQuestion) -> MemoryAnswer:
    """The answer; for a graph what is missing is said in it, for the user's own code raised."""
    memory = find_device_memory(question.device, question.target)
    if question.counts_alone:
        if not isinstance(question.source, GraphSource):
            raise UsageError(
                f"--counts is for models and layer graphs; {question.source.title} has to be traced"
            )
        return _without(question, memory, COUNTS_ALONE)
    from trainload.run import ready_interpreter

    try:
        python = ready_interpreter("torch", question.python)
    except EnvironmentProblem as error:
        # The user's own code needs torch for anything at all, and a named interpreter was meant.
        if question.python is not None or not isinstance(question.source, GraphSource):
            raise
        return _without(question, memory, str(error))
    if question.measure:
        return _without(question, memory, None, _measure(question, python))
    return _answer_traced(question, memory, python)


def _answer_traced(question: MemoryQuestion, memory: DeviceMemory, python: str) -> MemoryAnswer:
    from trainload.api.estimating.tracing import TraceJob, Tracing
    from trainload.estimate.memory.fit import estimate_memory
    from trainload.estimate.memory.ram import estimate_ram

    with Tracing(python, memory, question.limit_s, progress=question.progress) as tracing:
        try:
            job = TraceJob(step=question.source.step(question.choice))
            traced = tracing.trace(job, "the step")
        except TrainloadError as error:
            if isinstance(error, UsageError) or not isinstance(question.source, GraphSource):
                raise
            return _without(question, memory, str(error))
        answer = MemoryAnswer(
            title=question.source.title,
            device=question.device,
            target=memory.target,
            estimate=None,
            missing=None,
            parameters=traced.parameters,
            notes=(*memory.notes, *traced.notes),
        )
        if memory.target == "cpu":
            return replace(answer, ram=estimate_ram(traced.events))
        estimate = estimate_memory(traced.events, memory.temporaries_of, memory.room)
        answer = replace(answer, estimate=estimate)
        unsure = estimate.verdict in ("does not fit", "too close to call")
        if question.what_if if question.what_if is not None else unsure:
            return _with_help(question, memory, answer, traced, tracing)
    return answer


def _with_help(
    question: MemoryQuestion,
    memory: DeviceMemory,
    answer: MemoryAnswer,
    traced: Traced,
    tracing: Tracing,
) -> MemoryAnswer:
    from trainload.api.estimating.what_if import Asked, try_alternatives

    if isinstance(question.source, ScriptSource):
        return replace(answer, notes=(*answer.notes, SCRIPT_DECIDES))
    assert answer.estimate is not None
    asked = Asked(
        source=question.source,
        choice=question.choice,
        device=memory,
        events=traced.events,
        estimate=answer.estimate,
    )
    found = try_alternatives(asked, tracing)
    return replace(answer, alternatives=found.alternatives, largest_batch=found.largest_batch)


def _measure(question: MemoryQuestion, python: str) -> MeasuredPeak:
    from trainload.api.estimating.measured import measure_steps

    return measure_steps(
        question.source,
        question.choice,
        python,
        question.limit_s,
        question.out,
        progress=question.progress,
    )


def _without(
    question: MemoryQuestion,
    memory: DeviceMemory,
    missing: str | None,
    measured: MeasuredPeak | None = None,
) -> MemoryAnswer:
    return MemoryAnswer(
        title=question.source.title,
        device=question.device,
        target=memory.target,
        estimate=None,
        missing=missing or "measured instead",
        measured=measured,
    )
