"""What would help: the same step in other ways, and the largest batch that fits.

Traces through `tracing` and judges with `estimate`; prints nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainload.api.estimating.sources import BuildSource, GraphSource, ModuleSource
from trainload.api.estimating.tracing import Traced, TraceJob, Tracing
from trainload.errors import TrainloadError
from trainload.estimate.memory.accumulated import accumulate
from trainload.estimate.memory.answer import TOLD_APART, Alternative, LargestBatch
from trainload.estimate.memory.device import DeviceMemory
from trainload.estimate.memory.fit import (
    MemoryEstimate,
    chance_of_running_out,
    judge,
    most_that_fits,
)
from trainload.estimate.memory.replay import goes_through, needed_bytes, remembered, replay_trace
from trainload.estimate.memory.scaled_trace import ScaledTrace, match_traces
from trainload.units import render_bytes
from trainload.workload import Optimizer
from trainload_worker.protocol.training import HALVES

if TYPE_CHECKING:
    from trainload.estimate.counts.answer import StepChoice
    from trainload.estimate.memory.op_trace import Event

MOST_TRACES = 6
"""To find the largest batch where a trace cannot be scaled."""
MOST_EXAMPLES = 10**8
_BF16_FROM = (8, 0)
"""The capability from which GPUs have units for bf16; older ones gain no time by it."""
_FP16_FROM = (7, 0)
"""That from which they have such units for fp16."""

FRAGMENTED = (
    "holds {held} less at its fullest moment, but its tensors lie so in torch's cache that {idle} "
    "between them can be neither used nor given back; "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True may avoid that"
)
"""Why a step that holds less may need more memory to go through."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The step that was estimated, and all that is needed to trace it again."""

    source: GraphSource | BuildSource | ModuleSource
    choice: StepChoice
    device: DeviceMemory
    events: Sequence[Event]
    estimate: MemoryEstimate

    def job(self, *, checkpoint_blocks: bool = False, **changes: object) -> TraceJob:
        """The step with some of its choices changed."""
        choice = replace(self.choice, **changes)  # type: ignore[arg-type]
        return TraceJob(step=self.source.step(choice), checkpoint_blocks=checkpoint_blocks)


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """All that was tried."""

    alternatives: tuple[Alternative, ...]
    largest_batch: LargestBatch | None


def try_alternatives(asked: Asked, tracing: Tracing) -> WhatIf:
    """Trace the other ways at once, then look for the largest batch from what they gave.

    The batch of a module that was handed over is what its loss holds: no other can be traced.
    """
    jobs = _jobs(asked)
    names = tuple(jobs)
    if isinstance(asked.source, ModuleSource):
        found = tracing.trace_all(jobs)
        tried = [_traced(asked, name, found[name]) for name in names]
        return WhatIf(alternatives=_by_gain(tried), largest_batch=None)
    base = max(2, asked.choice.examples)
    for batch in {base, 2 * base} - {asked.choice.examples}:
        jobs[f"batch {batch}"] = asked.job(batch_size=batch)
    found = tracing.trace_all(jobs)
    once = asked.events if base == asked.choice.examples else _events(found[f"batch {base}"])
    twice = _events(found[f"batch {2 * base}"])
    scaled = match_traces(once, twice, base) if once is not None and twice is not None else None
    alternatives = [_traced(asked, name, found[name]) for name in names]
    alternatives += _accumulated(asked, scaled, tracing)
    return WhatIf(
        alternatives=_by_gain(alternatives),
        largest_batch=_find_largest(asked, scaled, tracing),
    )


def _by_gain(alternatives: Sequence[Alternative]) -> tuple[Alternative, ...]:
    return tuple(sorted(alternatives, key=lambda one: -(one.gain_bytes or 0)))


def _jobs(asked: Asked) -> dict[str, TraceJob]:
    """The other ways by name, without those that are taken already."""
    jobs = {}
    if asked.choice.precision not in HALVES:
        if asked.device.capability >= _BF16_FROM:
            jobs["bf16 autocast"] = asked.job(precision="bf16")
        elif asked.device.capability >= _FP16_FROM:
            jobs["fp16 autocast"] = asked.job(precision="fp16")
    jobs["activation checkpointing"] = asked.job(checkpoint_blocks=True)
    optimizer = asked.choice.optimizer
    if optimizer.name != "sgd":
        jobs["sgd with momentum"] = asked.job(optimizer=Optimizer(name="sgd", momentum=0.9))
    if optimizer.name != "sgd" or optimizer.momentum:
        jobs["sgd without momentum"] = asked.job(optimizer=Optimizer(name="sgd", momentum=0.0))
    return jobs


_OPTIONS = {
    "bf16 autocast": "--precision bf16",
    "fp16 autocast": "--precision fp16",
    "sgd with momentum": "--optimizer sgd",
    "sgd without momentum": "--optimizer sgd --momentum 0",
}


def _events(found: Traced | TrainloadError) -> Sequence[Event] | None:
    return None if isinstance(found, TrainloadError) else found.events


def _traced(asked: Asked, name: str, found: Traced | TrainloadError) -> Alternative:
    if isinstance(found, TrainloadError):
        return _unknown(name, str(found))
    notes = [note for note in found.notes if note.startswith("checkpointed: ")]
    note = f"torch.utils.checkpoint around {notes[0].partition(': ')[2]}" if notes else None
    return _judged(asked, name, found.events, _OPTIONS.get(name), note)


def _unknown(name: str, why: str) -> Alternative:
    return Alternative(
        name=name,
        option=None,
        needed_bytes=None,
        gain_bytes=None,
        verdict="not known",
        running_out=None,
        note=why,
    )


def _judged(
    asked: Asked, name: str, events: Sequence[Event], option: str | None, note: str | None
) -> Alternative:
    inside, room = remembered(asked.device.temporaries_of), asked.device.room
    free = replay_trace(events, inside)
    least = needed_bytes(free)
    chance = chance_of_running_out(least, room)
    before = asked.estimate
    held_gain = before.allocated_bytes.value_bytes - free.peak_allocated_bytes
    more = least - before.least_bytes
    if more > TOLD_APART * least and held_gain > 0:
        why = FRAGMENTED.format(
            held=render_bytes(held_gain), idle=render_bytes(least - free.peak_allocated_bytes)
        )
        note = why if note is None else f"{note}; {why}"
    return Alternative(
        name=name,
        option=option,
        needed_bytes=least + room.overhead.value_bytes,
        gain_bytes=before.least_bytes - least,
        held_gain_bytes=held_gain,
        verdict=judge(chance),
        running_out=chance,
        note=note,
    )


def _accumulated(asked: Asked, scaled: ScaledTrace | None, tracing: Tracing) -> list[Alternative]:
    """Steps in two and four portions whose gradients are added up."""
    batch = asked.choice.examples
    portions = {f"{n} portions of {batch // n}": batch // n for n in (2, 4) if batch % n == 0}
    if scaled is not None:
        events = {name: scaled.events(size) for name, size in portions.items()}
    else:
        found = tracing.trace_all(
            {name: asked.job(batch_size=size) for name, size in portions.items()}
        )
        events = {name: list(one.events) for name, one in found.items() if isinstance(one, Traced)}
    note = "gradients added up before each update"
    return [
        _judged(asked, f"gradient accumulation: {name}", accumulate(one), None, note)
        for name, one in events.items()
    ]


def _find_largest(
    asked: Asked, scaled: ScaledTrace | None, tracing: Tracing
) -> LargestBatch | None:
    most = most_that_fits(asked.device.room)
    if most is None:
        return None

    inside = asked.device.temporaries_of

    def surely(events: Sequence[Event]) -> bool:
        known = remembered(inside)
        return needed_bytes(replay_trace(events, known)) <= most

    def traced(batch: int) -> bool | None:
        try:
            return surely(tracing.trace(asked.job(batch_size=batch), f"batch {batch}").events)
        except TrainloadError:
            return None

    if scaled is None:
        return _search_traced(asked, traced)
    best = largest_where(
        lambda batch: goes_through(scaled.events(batch), inside, most),
        _guess(asked, scaled, most),
    )
    if best is not None and not surely(scaled.events(best)):
        # It went through here, but would not with a little more memory.
        best = largest_where(lambda batch: surely(scaled.events(batch)), best - best // 50)
    if best is None:
        return LargestBatch(batch_size=None, note="not even a batch of 1 fits")
    answer = True if best == asked.choice.examples else traced(best)
    if answer:
        return LargestBatch(batch_size=best, note="checked by a trace at that batch")
    if answer is None:
        return LargestBatch(
            batch_size=best,
            note="scaled from two traces; a trace at that batch failed, so it is not checked",
        )
    return _search_traced(asked, traced, above=best)


def _guess(asked: Asked, scaled: ScaledTrace, most: int) -> int:
    """Where the need, taken as a straight line through two batches, meets the room."""
    inside = asked.device.temporaries_of
    once = replay_trace(scaled.once, inside).peak_reserved_bytes
    twice = replay_trace(scaled.twice, inside).peak_reserved_bytes
    slope = max((twice - once) / scaled.batch_size, 1.0)
    return int(min(max(1, scaled.batch_size + (most - once) / slope), MOST_EXAMPLES))


def largest_where(fits: Callable[[int], bool], guess: int) -> int | None:
    """The largest number that fits, where all below it do; looked for around a guess."""
    low, high = 0, MOST_EXAMPLES + 1
    width = max(1, guess // 50)
    at = guess
    while high - low > 1:
        at = min(max(at, low + 1), high - 1)
        if fits(at):
            low = at
            at = low + width if high > MOST_EXAMPLES else (low + high) // 2
        else:
            high = at
            at = high - width if low == 0 and high - width > 0 else (low + high) // 2
        if low == 0 or high > MOST_EXAMPLES:
            width *= 2
        else:
            at = (low + high) // 2
    return low or None


def _search_traced(
    asked: Asked, traced: Callable[[int], bool | None], above: int | None = None
) -> LargestBatch:
    """By real traces alone; as many as may be made, so perhaps not the very largest."""
    batch = asked.choice.examples
    low = batch if asked.estimate.verdict == "fits" else 0
    high = above
    for _ in range(MOST_TRACES):
        if high is not None and high - low <= 1:
            break
        at = 2 * max(low, 1) if high is None else (low + high) // 2
        if low == 0 and high is None:
            at = max(1, batch // 2)
        answer = traced(at)
        if answer:
            low = at
        else:
            high = at
    if low == 0:
        return LargestBatch(batch_size=None, note=f"none found with {MOST_TRACES} traces")
    exact = high is not None and high - low <= 1
    return LargestBatch(
        batch_size=low,
        note="found by traces"
        if exact
        else f"at least; {MOST_TRACES} traces were made, and a larger one may fit",
    )
