"""The op trace of a step at any batch size, from those at one batch size and at twice as much.

Sizes and shapes of a step grow affinely with its batch; events are matched one by one. Reads no
file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from trainload.estimate.memory.op_trace import Allocation, Event, Free, Operation, TraceTensor

Scale = Callable[[int, int], int]
"""From a number at one batch and at twice as much to that at another."""


@dataclass(frozen=True, kw_only=True)
class ScaledTrace:
    """Two traces of one step that differ in nothing but numbers."""

    batch_size: int
    once: Sequence[Event]
    twice: Sequence[Event]

    def events(self, batch_size: int) -> list[Event]:
        """The step's events at a batch of so many examples; above a whole number rounded up."""
        if batch_size == self.batch_size:
            return list(self.once)
        above = batch_size - self.batch_size

        def scale(one: int, other: int) -> int:
            # Rounded up; a small batch can still make nothing negative.
            return max(0, one - (one - other) * above // self.batch_size)

        return [_at(one, other, scale) for one, other in zip(self.once, self.twice, strict=True)]


def match_traces(
    once: Sequence[Event], twice: Sequence[Event], batch_size: int
) -> ScaledTrace | None:
    """The pair as one trace; None where they differ in structure.

    What is freed at once, as autocast's copies of weights are, goes in an order of chance: such
    frees are put in order where the traces differ as they are.
    """
    if len(once) != len(twice):
        return None
    for first, second in ((once, twice), (_with_frees_in_order(once), _with_frees_in_order(twice))):
        if all(_same(one, other) for one, other in zip(first, second, strict=True)):
            return ScaledTrace(batch_size=batch_size, once=first, twice=second)
    return None


def _with_frees_in_order(events: Sequence[Event]) -> list[Event]:
    """The events with each stretch of frees by the numbers of their storages."""
    found: list[Event] = []
    for _, stretch in groupby(events, lambda event: isinstance(event, Free)):
        found += sorted(stretch, key=_storage)
    return found


def _storage(event: Event) -> int:
    """By which frees are put in order; anything else stays in its own."""
    return event.storage if isinstance(event, Free) else 0


def _same(one: Event, other: Event) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, Allocation) and isinstance(other, Allocation):
        return (one.storage, one.category) == (other.storage, other.category)
    if isinstance(one, Operation) and isinstance(other, Operation):
        return (
            (one.name, one.layer, one.phase, one.step)
            == (other.name, other.layer, other.phase, other.step)
            and _same_tensors(one.inputs, other.inputs)
            and _same_tensors(one.outputs, other.outputs)
        )
    return one == other


def _same_tensors(one: Sequence[TraceTensor], other: Sequence[TraceTensor]) -> bool:
    return len(one) == len(other) and all(
        (a.storage, a.dtype, len(a.shape), a.strides is None)
        == (b.storage, b.dtype, len(b.shape), b.strides is None)
        for a, b in zip(one, other, strict=True)
    )


def _at(one: Event, other: Event, scale: Scale) -> Event:
    if isinstance(one, Allocation) and isinstance(other, Allocation):
        if one.size_bytes == other.size_bytes:
            return one
        return replace(one, size_bytes=scale(one.size_bytes, other.size_bytes))
    if isinstance(one, Operation) and isinstance(other, Operation):
        if one == other:
            return one
        return replace(
            one,
            inputs=_tensors(one.inputs, other.inputs, scale),
            outputs=_tensors(one.outputs, other.outputs, scale),
            attributes=_value(one.attributes, other.attributes, scale),
        )
    return one


def _tensors(
    one: Sequence[TraceTensor], other: Sequence[TraceTensor], scale: Scale
) -> tuple[TraceTensor, ...]:
    return tuple(
        a
        if a == b
        else TraceTensor(
            shape=_value(a.shape, b.shape, scale),
            dtype=a.dtype,
            strides=_value(a.strides, b.strides, scale),
            storage=a.storage,
        )
        for a, b in zip(one, other, strict=True)
    )


def _value(one: Any, other: Any, scale: Scale) -> Any:
    """Whole numbers that differ are scaled, wherever they stand; anything else stays."""
    if one == other:
        return one
    if type(one) is int and type(other) is int:
        return scale(one, other)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        return type(one)(_value(a, b, scale) for a, b in zip(one, other, strict=True))
    return one
