"""A step that adds the gradients of two portions up, from the op trace of one portion.

The second portion runs while the gradients of the first are held; further ones are like it. Reads
no file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trainload.estimate.memory.op_trace import Allocation, Event, Free, Mark, Operation

_APART = 1 << 40
"""Added to the numbers of storages of the second portion: no trace has so many."""


def accumulate(events: Sequence[Event]) -> list[Event]:
    """The events with the last step's two passes done twice before its update."""
    last = max((event.step for event in events if isinstance(event, Mark)), default=0)
    start = _place(events, "step begin", last)
    update = _place(events, "update begin", last)
    if start is None or update is None:
        return list(events)
    return [*events[:update], *_again(events[start:update]), *events[update:]]


def _place(events: Sequence[Event], text: str, step: int) -> int | None:
    mark = Mark(text=text, step=step)
    return next((at for at, event in enumerate(events) if event == mark), None)


@dataclass(kw_only=True)
class _Second:
    own: set[int] = field(default_factory=set)
    """Storages that the portion itself has allocated and not yet freed."""
    added: list[int] = field(default_factory=list)
    """Gradients of the portion that the next operation finds added to those of the first."""


def _again(portion: Sequence[Event]) -> list[Event]:
    """The same passes with storages of their own; whatever they leave behind is freed at the end.

    A gradient is freed as soon as it is added to the one that is there.
    """
    second = _Second()
    events: list[Event] = []
    waiting: list[int] = []
    for event in portion:
        if isinstance(event, Operation):
            events += [Free(storage=storage) for storage in second.added]
            second.own -= set(second.added)
            second.added, waiting = waiting, []
            events.append(event)
        elif isinstance(event, Allocation):
            number = event.storage + _APART
            second.own.add(number)
            if event.category == "gradient":
                waiting.append(number)
            events.append(
                Allocation(storage=number, size_bytes=event.size_bytes, category=event.category)
            )
        elif isinstance(event, Free) and event.storage + _APART in second.own:
            number = event.storage + _APART
            second.own.discard(number)
            for kept in (second.added, waiting):
                if number in kept:
                    kept.remove(number)
            events.append(Free(storage=number))
    events += [Free(storage=storage) for storage in sorted(second.own)]
    return events
