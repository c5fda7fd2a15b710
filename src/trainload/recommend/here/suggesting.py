"""All suggestions for one machine in one list, the largest known gain first; pure."""

from __future__ import annotations

from trainload.recommend.here.facts import HereFacts, Suggestion
from trainload.recommend.here.feeding import (
    suggest_batch,
    suggest_disk,
    suggest_loader,
    suggest_swap,
)
from trainload.recommend.here.processor import (
    suggest_allocator,
    suggest_cores,
    suggest_huge_pages,
    suggest_precision,
    suggest_threads,
)


def suggest_here(facts: HereFacts) -> tuple[Suggestion, ...]:
    """Every suggestion, those with the largest known gain first."""
    found = [
        suggest_threads(facts),
        suggest_cores(facts),
        suggest_loader(facts),
        *suggest_precision(facts),
        *suggest_batch(facts),
        suggest_huge_pages(facts),
        suggest_allocator(facts),
        suggest_swap(facts),
        suggest_disk(facts),
    ]
    return tuple(sorted(found, key=lambda one: -(one.gain or 0.0)))
