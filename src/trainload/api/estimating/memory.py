"""The memory of a step: traced, replayed, and what would help; prints nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from trainload.api.estimating.sources import GraphSource, ModuleSource, ScriptSource
from trainload.errors import TrainloadError, UsageError
from trainload.estimate.memory.answer import MemoryAnswer

if TYPE_CHECKING:
    from trainload.api.estimating.sources import Source
    from trainload.api.estimating.tracing import Traced, Tracing
    from trainload.estimate.counts.answer import StepChoice
    from trainload.estimate.memory.device import DeviceMemory
    from trainload.hardware.catalogue import Device

SCRIPT_DECIDES = (
    "batch, precision and optimizer stand in the script: change them there and estimate again"
)
LOSS_DECIDES = (
    "the batch is what the loss function holds: for other batches estimate a function in a file, "
    "such as my.py:build"
)

LIBRARIES_UNKNOWN = (
    "what torch's libraries take could not be measured in its interpreter: "
    "the range holds builds for the CPU and for CUDA"
)


class KnownTraces:
    """Traces of one step: devices whose capabilities make the same choices share theirs."""

    def __init__(self) -> None:
        self._found: list[tuple[str, Traced]] = []

    def trace(self, question: MemoryQuestion, tracing: Tracing) -> Traced:
        """The step as the question's device would do it; traced where it was not yet."""
        from trainload.api.estimating.tracing import TraceJob

        found = self.find(question.memory)
        if found is None:
            job = TraceJob(step=question.source.step(question.choice))
            found = tracing.trace(job, "the step")
            self._found.append((question.memory.target, found))
        return found

    def find(self, memory: DeviceMemory) -> Traced | None:
        """The step as such a device would do it; None where it was not traced."""
        for target, one in self._found:
            if target == memory.target and one.serves(memory.capability):
                return one
        return None


@dataclass(frozen=True, kw_only=True)
class MemoryQuestion:
    """What is asked about the memory of a step."""

    source: Source
    choice: StepChoice
    device: Device | None
    memory: DeviceMemory
    """What the device means for memory."""
    python: str | None
    """The interpreter that has torch; None for a module, which is in this process."""
    limit_s: float
    what_if: bool | None
    """None: where the step does not surely fit."""
    show: Callable[[str], None] | None
    known: KnownTraces = field(default_factory=lambda: KnownTraces())

    def answer_without(self, missing: str) -> MemoryAnswer:
        """That there is no estimate, and why."""
        return MemoryAnswer(
            title=self.source.title,
            device=self.device,
            target=self.memory.target,
            estimate=None,
            missing=missing,
        )


def answer_memory(question: MemoryQuestion) -> MemoryAnswer:
    """The answer; for a graph what is missing is said in it, for the user's own code raised."""
    from trainload.api.estimating.tracing import Tracing
    from trainload.estimate.counts.operations import lacking_operands
    from trainload.estimate.counts.traced import count_trace
    from trainload.estimate.memory.fit import estimate_memory

    memory = question.memory
    with Tracing(question.python, memory, question.limit_s, question.show) as tracing:
        try:
            traced = question.known.trace(question, tracing)
        except TrainloadError as error:
            if isinstance(error, UsageError) or not isinstance(question.source, GraphSource):
                raise
            return question.answer_without(str(error))
        answer = MemoryAnswer(
            title=question.source.title,
            device=question.device,
            target=memory.target,
            estimate=None,
            missing=None,
            parameters=traced.parameters,
            step=None
            if isinstance(question.source, GraphSource) or lacking_operands(traced.events)
            else count_trace(traced.events, traced.parameters),
            notes=(*memory.notes, *traced.notes),
        )
        if memory.target == "cpu":
            return _with_ram(question, answer, traced)
        estimate = estimate_memory(
            traced.events, memory.temporaries_of, memory.room, at_most=traced.at_most
        )
        answer = replace(answer, estimate=estimate)
        unsure = estimate.verdict in ("does not fit", "too close to call")
        if question.what_if if question.what_if is not None else unsure:
            return _with_help(question, answer, traced, tracing)
    return answer


def _with_ram(question: MemoryQuestion, answer: MemoryAnswer, traced: Traced) -> MemoryAnswer:
    """Resident memory, with what torch's libraries take in the interpreter that has it."""
    from trainload.estimate.memory.ram import estimate_ram
    from trainload.run import measure_libraries_bytes

    taken = measure_libraries_bytes("torch", question.python or sys.executable)
    notes = answer.notes if taken is not None else (*answer.notes, LIBRARIES_UNKNOWN)
    return replace(answer, ram=estimate_ram(traced.events, libraries_bytes=taken), notes=notes)


def _with_help(
    question: MemoryQuestion, answer: MemoryAnswer, traced: Traced, tracing: Tracing
) -> MemoryAnswer:
    from trainload.api.estimating.what_if import Asked, try_alternatives

    source = question.source
    if isinstance(source, ScriptSource):
        return replace(answer, notes=(*answer.notes, SCRIPT_DECIDES))
    assert answer.estimate is not None
    asked = Asked(
        source=source,
        choice=question.choice,
        device=question.memory,
        events=traced.events,
        estimate=answer.estimate,
    )
    found = try_alternatives(asked, tracing)
    notes = (*answer.notes, LOSS_DECIDES) if isinstance(source, ModuleSource) else answer.notes
    return replace(
        answer,
        alternatives=found.alternatives,
        largest_batch=found.largest_batch,
        notes=notes,
    )
