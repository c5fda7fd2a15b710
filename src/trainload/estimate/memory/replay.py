"""A training step through the allocator: what it holds and reserves, and its fullest moment.

Takes the events of an op trace and a rule for the temporaries inside operations; reads no file and
touches no device.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from trainload.estimate.memory.allocator import CachingAllocator, OutOfMemory
from trainload.estimate.memory.op_trace import Allocation, Event, Free, Mark, Operation
from trainload.estimate.workspaces.script import Step, Temporaries

Category = Literal[
    "weights", "buffers", "gradients", "optimizer", "inputs", "activations", "workspaces",
    "temporaries",
]  # fmt: skip
CATEGORIES: tuple[Category, ...] = (
    "weights", "gradients", "optimizer", "activations", "workspaces", "temporaries", "inputs",
    "buffers",
)  # fmt: skip
_NAMES: Mapping[str, Category] = {
    "weight": "weights",
    "buffer": "buffers",
    "gradient": "gradients",
    "optimizer": "optimizer",
    "input": "inputs",
    "activation": "activations",
}


_CONVOLUTION = "convolution"
"""In the names of operations that do without a workspace where none is to be had: torch goes on to
cuDNN's next plan when one runs out of memory (`try_configs`, with cuDNN's benchmark `try_plans`, in
`aten/src/ATen/native/cudnn/Conv_v8.cpp`). Taken for granted: a later plan needs none."""
STRIDES = 8
"""In which the need is looked for from above."""
NOTHING = Temporaries()
TemporariesOf = Callable[[Operation], Temporaries]
Act = tuple[Hashable, int | None, bool]
"""A key, the bytes that are held under it or None where it is freed, and whether the step goes on
where they cannot be held."""


def remembered(temporaries_of: TemporariesOf) -> TemporariesOf:
    """The same rule, which works each operation out once: a trace is replayed several times."""
    # The operation is kept beside the answer, so that no other ever has its id.
    known: dict[int, tuple[Operation, Temporaries]] = {}

    def inside(operation: Operation) -> Temporaries:
        found = known.get(id(operation))
        if found is None:
            found = known[id(operation)] = operation, temporaries_of(operation)
        return found[1]

    return inside


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """Memory at the end of an operation, and the most while it ran."""

    operation: str
    layer: str | None
    phase: str
    step: int
    allocated_bytes: int
    peak_bytes: int
    reserved_bytes: int


@dataclass(frozen=True, kw_only=True)
class PeakContents:
    """What is held at the fullest moment, in the blocks the allocator gave; sums to the peak."""

    operation: str | None
    """The one that ran; None before the first."""
    layer: str | None
    phase: str | None
    total_bytes: int
    by_category: Mapping[Category, int]
    activations_by_layer: Mapping[str, int]
    """Largest first; what belongs to no layer is under the empty name."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """All steps of a trace through one allocator."""

    peak_allocated_bytes: int
    peak_reserved_bytes: int
    curve: tuple[CurvePoint, ...]
    """Of the last step alone: the first lacks what the optimizer keeps."""
    peak: PeakContents
    failure: OutOfMemory | None
    retries: int
    acts: tuple[Act, ...]
    """What the allocator was asked for, in order."""


def replay_trace(
    events: Sequence[Event],
    temporaries_of: TemporariesOf = lambda _: NOTHING,
    *,
    capacity_bytes: int | None = None,
) -> Replay:
    """Every event in order; stops at the first allocation that does not fit the capacity."""
    run = _Run(events, temporaries_of, capacity_bytes)
    run.go()
    return Replay(
        peak_allocated_bytes=run.allocator.peak_allocated_bytes,
        peak_reserved_bytes=run.allocator.peak_reserved_bytes,
        curve=tuple(run.curve),
        peak=_contents(events, temporaries_of, capacity_bytes, run.peak_hold),
        failure=run.failure,
        retries=run.allocator.retries,
        acts=tuple(run.acts),
    )


def goes_through(
    events: Sequence[Event], temporaries_of: TemporariesOf, capacity_bytes: int
) -> bool:
    """Whether every allocation succeeds where the allocator may reserve so much."""
    tried = _Run(events, temporaries_of, capacity_bytes, quiet=True)
    tried.go()
    return tried.failure is None


def thin_curve(curve: Sequence[CurvePoint], most: int) -> tuple[CurvePoint, ...]:
    """At most so many points: of each stretch the one that holds most; the last one stays."""
    if len(curve) <= most:
        return tuple(curve)
    edges = [round(at * (len(curve) - 1) / (most - 1)) for at in range(most)]
    kept = [
        max(curve[low:high], key=lambda point: point.peak_bytes) for low, high in pairwise(edges)
    ]
    return (*kept, curve[-1])


def needed_bytes(
    free: Replay,
    *,
    within: float = 0.005,
) -> int:
    """The capacity from which on the steps go through: cached segments are given back when full.

    `free` is their replay without a bound; what it asked for is asked again with ever less memory.
    Between the peak of what is held and that of what is reserved without a bound. With less, steps
    may still go through here and there: other capacities put other blocks beside each other.
    """
    low, high = free.peak_allocated_bytes, free.peak_reserved_bytes
    stride = max((high - low) // STRIDES, int(within * high), 1 << 20)
    while high - stride > low and _goes_on(free.acts, high - stride):
        high -= stride
    low = max(low, high - stride)
    while high - low > max(within * high, 1 << 20):
        middle = (low + high) // 2
        if _goes_on(free.acts, middle):
            high = middle
        else:
            low = middle
    return high


def _goes_on(acts: Sequence[Act], capacity_bytes: int) -> bool:
    allocator = CachingAllocator(capacity_bytes)
    allocate, free, holds = allocator.allocate, allocator.free, allocator.holds
    for key, size, spared in acts:
        if size is None:
            if holds(key):
                free(key)
        elif allocate(key, size) is not None and not spared:
            return False
    return True


class _Run:
    """One pass over the events."""

    def __init__(
        self,
        events: Sequence[Event],
        temporaries_of: TemporariesOf,
        capacity_bytes: int | None,
        *,
        quiet: bool = False,
    ) -> None:
        self.events = events
        self.temporaries_of = temporaries_of
        self.allocator = CachingAllocator(capacity_bytes)
        self.curve: list[CurvePoint] = []
        self.failure: OutOfMemory | None = None
        self.operation: Operation | None = None
        self.acts: list[Act] = []
        self.holds = 0
        self.peak_hold = 0
        """How many allocations had been made when most was held."""
        self._last_step = -1 if quiet else _last_step(events)
        self._highest = self._fullest = 0

    def go(self) -> None:
        """To the end, or to the allocation that fails."""
        for operation, outputs, others in _grouped(self.events):
            self.operation = operation
            if operation is not None and not self._operate(operation, outputs):
                return
            for event in others:
                if isinstance(event, Allocation):
                    if not self._hold(event.storage, event.size_bytes, _category(event)):
                        return
                elif isinstance(event, Free):
                    self._free(event.storage)

    def _operate(self, operation: Operation, outputs: Sequence[Allocation]) -> bool:
        self._fullest = self.allocator.allocated_bytes
        inside = self.temporaries_of(operation)
        if not inside.kept_last and not self._keep(inside):
            return False
        if inside.steps:
            if not self._go_inside(operation, outputs, inside.steps):
                return False
        elif not self._hold_all(outputs):
            return False
        if inside.kept_last and not self._keep(inside):
            return False
        if operation.step == self._last_step:
            self.curve.append(
                CurvePoint(
                    operation=operation.name,
                    layer=operation.layer,
                    phase=operation.phase,
                    step=operation.step,
                    allocated_bytes=self.allocator.allocated_bytes,
                    peak_bytes=self._fullest,
                    reserved_bytes=self.allocator.reserved_bytes,
                )
            )
        return True

    def _keep(self, inside: Temporaries) -> bool:
        """What libraries take once and never give back."""
        return all(
            self.allocator.holds(name) or self._hold(name, size, "workspaces")
            for name, size in inside.kept.items()
        )

    def _go_inside(
        self, operation: Operation, outputs: Sequence[Allocation], steps: Sequence[Step]
    ) -> bool:
        """Results and workspaces in the order in which the operation makes them."""
        waiting = {output.storage: output for output in outputs}
        places = operation.outputs
        named = [s.number for s in steps if s.kind == "result" and s.number < len(places)]
        later = {places[number].storage for number in named}
        if not self._hold_all([waiting.pop(o.storage) for o in outputs if o.storage not in later]):
            return False
        spare = _CONVOLUTION in operation.name
        taken: set[Hashable] = set()
        for at, step in enumerate(steps):
            key: Hashable = "inside", step.number
            if step.kind == "take":
                spared = spare and _is_brief(steps, at)
                if self._hold(key, step.size_bytes, "workspaces", spared=spared):
                    taken.add(key)
                elif not (spared and self.failure is not None):
                    return False
                self.failure = None
            elif step.kind == "give":
                if key in taken:
                    taken.discard(key)
                    self._free(key)
            elif step.number < len(places):
                made = waiting.pop(places[step.number].storage, None)
                if made is not None and not self._hold_all([made]):
                    return False
        for left in taken:
            self._free(left)
        return True

    def _hold_all(self, outputs: Sequence[Allocation]) -> bool:
        return all(self._hold(o.storage, o.size_bytes, _category(o)) for o in outputs)

    def _free(self, key: Hashable) -> None:
        self.acts.append((key, None, False))
        self.allocator.free(key)

    def _hold(self, key: Hashable, size: int, _category: Category, *, spared: bool = False) -> bool:
        self.acts.append((key, size, spared))
        self.failure = self.allocator.allocate(key, size)
        self.holds += 1
        held = self.allocator.allocated_bytes
        if held > self._fullest:
            self._fullest = held
        if held > self._highest:
            self._highest, self.peak_hold = held, self.holds
        return self.failure is None


class _RunToPeak(_Run):
    """The same pass up to its fullest moment, with a note of what each block is for."""

    def __init__(
        self,
        events: Sequence[Event],
        temporaries_of: TemporariesOf,
        capacity_bytes: int | None,
        until: int,
    ) -> None:
        super().__init__(events, temporaries_of, capacity_bytes, quiet=True)
        self.notes: dict[Hashable, tuple[Category, str]] = {}
        self._until = until

    def _hold(self, key: Hashable, size: int, category: Category, *, spared: bool = False) -> bool:
        layer = self.operation.layer if self.operation is not None else None
        self.notes[key] = category, layer or ""
        return super()._hold(key, size, category, spared=spared) and self.holds < self._until


def _contents(
    events: Sequence[Event], temporaries_of: TemporariesOf, capacity_bytes: int | None, until: int
) -> PeakContents:
    run = _RunToPeak(events, temporaries_of, capacity_bytes, until)
    if until:
        run.go()
    parts: dict[Category, int] = dict.fromkeys(CATEGORIES, 0)
    layers: dict[str, int] = {}
    for key, size in run.allocator.held():
        category, layer = run.notes[key]
        parts[category] += size
        if category == "activations":
            layers[layer] = layers.get(layer, 0) + size
    operation = run.operation
    return PeakContents(
        operation=operation.name if operation else None,
        layer=operation.layer if operation else None,
        phase=operation.phase if operation else None,
        total_bytes=sum(parts.values()),
        by_category=parts,
        activations_by_layer=dict(sorted(layers.items(), key=lambda item: -item[1])),
    )


def _category(event: Allocation) -> Category:
    return _NAMES.get(event.category, "temporaries")


def _is_brief(steps: Sequence[Step], at: int) -> bool:
    """Whether what is taken here is given back at once: a workspace, and no copy of a tensor."""
    after = steps[at + 1] if at + 1 < len(steps) else None
    return after is not None and after.kind == "give" and after.number == steps[at].number


def _last_step(events: Iterable[Event]) -> int:
    return max((event.step for event in events if isinstance(event, Mark)), default=0)


def _grouped(
    events: Iterable[Event],
) -> Iterator[tuple[Operation | None, list[Allocation], list[Event]]]:
    """Each operation with the allocations of its results, then all until the next operation."""
    operation: Operation | None = None
    outputs: list[Allocation] = []
    others: list[Event] = []
    for event in events:
        if isinstance(event, Operation):
            if operation is not None or others:
                yield operation, outputs, others
            operation, outputs, others = event, [], []
        elif isinstance(event, Allocation) and operation is not None and not others:
            outputs.append(event)
        else:
            others.append(event)
    if operation is not None or others:
        yield operation, outputs, others
