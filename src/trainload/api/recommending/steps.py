"""The step in every precision and at any batch, from a few traces; memory and works of each.

One trace serves all GPUs: it makes the choices of an H200, whose attention is as fused as that of
the others and whose workspaces are the largest. Traces through `estimating.tracing`; predicts
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from trainload.api.estimating.sources import ModuleSource, ScriptSource
from trainload.api.estimating.tracing import Traced, TraceJob, Tracing
from trainload.errors import TrainloadError
from trainload.estimate.counts.answer import StepChoice
from trainload.estimate.memory.accumulated import accumulate
from trainload.estimate.memory.device import find_device_memory
from trainload.estimate.memory.ram import estimate_ram
from trainload.estimate.memory.replay import needed_bytes, remembered, replay_trace
from trainload.estimate.memory.scaled_trace import ScaledTrace, match_traces
from trainload.predict.operations import works_of

if TYPE_CHECKING:
    from trainload.api.estimating.sources import Source
    from trainload.estimate.memory.device import DeviceMemory, Target
    from trainload.estimate.memory.fit import Span
    from trainload.estimate.memory.op_trace import Event
    from trainload.predict.work import Work
    from trainload.workload import Optimizer
    from trainload_worker.protocol.training import Precision

OWN = "its own"
"""The precision of a script or module, which nobody else chooses."""
FREE_BATCH = 32
"""Traced where the batch is free."""
NEEDED_WITHIN = 0.02
"""Share of the need that it is found within: finer takes longer than all predictions."""
Key = tuple["Target", str, bool]
"""Target, traced precision, whether blocks are recomputed."""


class Steps:
    """Traces of one step, made when they are first needed."""

    def __init__(
        self,
        source: Source,
        optimizer: Optimizer,
        *,
        batch_size: int | None,
        python: str | None,
        limit_s: float,
        show: Callable[[str], None] | None,
    ) -> None:
        self.source = source
        self.fixed = isinstance(source, ModuleSource | ScriptSource)
        """Whether batch and precision are the code's own."""
        self._optimizer = optimizer
        whole = batch_size or FREE_BATCH
        self._base = max(1, whole // 2)
        self._python = python
        self.in_workers = python is not None
        """Whether other processes trace, and this one is not forked for it."""
        self._limit_s = limit_s
        self._show = show
        self._traced: dict[tuple[Key, int], Traced | TrainloadError] = {}
        self._scaled: dict[Key, ScaledTrace | None] = {}
        self._works: dict[tuple[Key, str, int], list[Work]] = {}
        self._least: dict[tuple[Key, int, bool], int] = {}
        self._ram: dict[tuple[Key, int], Span] = {}
        self.parameters = 0
        self.notes: tuple[str, ...] = ()

    def prepare(self, keys: Iterable[Key]) -> None:
        """Trace all of them, two at a time; TrainloadError where none can be traced."""
        wanted: dict[Target, dict[str, tuple[Key, int]]] = {}
        for key in keys:
            sizes = (1,) if self.fixed else (self._base, 2 * self._base)
            for size in sizes:
                if (key, size) not in self._traced:
                    again = ", recomputed" if key[2] else ""
                    name = f"{key[0]} {key[1]} batch {size}{again}"
                    wanted.setdefault(key[0], {})[name] = key, size
        for target, jobs in wanted.items():
            self._trace(target, jobs)
        errors = [one for one in self._traced.values() if isinstance(one, TrainloadError)]
        good = [one for one in self._traced.values() if isinstance(one, Traced)]
        if not good and errors:
            raise errors[0]
        if good:
            self.parameters = good[0].parameters
            self.notes = tuple(dict.fromkeys(note for one in good for note in one.notes))

    def _trace(self, target: Target, jobs: dict[str, tuple[Key, int]]) -> None:
        with Tracing(self._python, _memory_of(target), self._limit_s, self._show) as tracing:
            found = tracing.trace_all(
                {name: self._job(key, size) for name, (key, size) in jobs.items()}
            )
        for name, (key, size) in jobs.items():
            self._traced[key, size] = found[name]

    def _job(self, key: Key, size: int) -> TraceJob:
        precision: Precision = "bf16" if key[1] == "bf16" else "float32"
        choice = StepChoice(
            batch_size=None if isinstance(self.source, ModuleSource) else size,
            precision=precision,
            optimizer=self._optimizer,
        )
        return TraceJob(step=self.source.step(choice), checkpoint_blocks=key[2])

    def events(self, key: Key, size: int) -> Sequence[Event]:
        """The step with so many examples; TrainloadError where it cannot be traced."""
        if self.fixed:
            size = 1
        self.prepare([key])
        if (key, size) not in self._traced:
            scaled = self._scale(key)
            if scaled is not None:
                return scaled.events(size)
            self._trace(key[0], {f"{key[0]} {key[1]} batch {size}": (key, size)})
        found = self._traced[key, size]
        if isinstance(found, TrainloadError):
            raise found
        return found.events

    def _scale(self, key: Key) -> ScaledTrace | None:
        """Two traces as one for any batch; None where they differ in structure."""
        if key not in self._scaled:
            self.prepare([key])
            once, twice = (self._traced[key, n * self._base] for n in (1, 2))
            self._scaled[key] = (
                match_traces(once.events, twice.events, self._base)
                if isinstance(once, Traced) and isinstance(twice, Traced)
                else None
            )
        return self._scaled[key]

    def works(self, key: Key, precision: str, size: int) -> list[Work]:
        """The operations of a step of so many examples; fp16 is the trace of bf16 in that type."""
        where = key, precision, 1 if self.fixed else size
        if where not in self._works:
            works = works_of(self.events(key, size), tf32=precision == "tf32")
            if precision == "fp16":
                works = [
                    replace(work, dtype="float16") if work.dtype == "bfloat16" else work
                    for work in works
                ]
            self._works[where] = works
        return self._works[where]

    def guess_bytes(self, key: Key, size: int, *, portions: bool) -> int:
        """The least that is needed, quickly: a line through the two traced batches.

        Good to a fifth: at other batches other moments are the fullest.
        """
        if self.fixed or self._scale(key) is None:
            return self.least_bytes(key, size, portions=portions)
        once, twice = (self.least_bytes(key, n * self._base, portions=portions) for n in (1, 2))
        return max(round(once + (size - self._base) / self._base * (twice - once)), 1)

    def least_bytes(self, key: Key, size: int, *, portions: bool) -> int:
        """The least that the allocator needs of a GPU; with portions while gradients add up."""
        where = key, 1 if self.fixed else size, portions
        if where not in self._least:
            events = self.events(key, size)
            if portions:
                events = accumulate(events)
            inside = remembered(_memory_of(key[0]).temporaries_of)
            free = replay_trace(events, inside)
            self._least[where] = needed_bytes(free, within=NEEDED_WITHIN)
        return self._least[where]

    def ram(self, key: Key, size: int) -> Span:
        """The growth of a process that trains on a processor."""
        where = key, 1 if self.fixed else size
        if where not in self._ram:
            self._ram[where] = estimate_ram(self.events(key, size)).growth_bytes
        return self._ram[where]


def _memory_of(target: Target) -> DeviceMemory:
    return find_device_memory(None, target)
