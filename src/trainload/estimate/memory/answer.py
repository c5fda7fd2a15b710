"""The whole answer to "will it fit?": the estimate, what else was tried, and what was missing.

Values alone; made by whoever traces, drawn by terminal and report.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainload.estimate.counts.traced import TracedStep
from trainload.estimate.memory.fit import MemoryEstimate, Verdict
from trainload.estimate.memory.ram import RamEstimate
from trainload.hardware.catalogue import Device

TOLD_APART = 0.01
"""Share of a need below which two needs are the same: each is found within half of it."""


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """Another way to train the same, and what it would need."""

    name: str
    """In few words, such as `bf16`."""
    option: str | None
    """The words of this command that ask for it; None where the user's code decides."""
    needed_bytes: int | None
    """None where it could not be estimated."""
    gain_bytes: int | None
    """Less than without it; negative where it needs more."""
    held_gain_bytes: int | None = None
    """Less held at the fullest moment; a step may hold less and yet need more, since what lies
    between its tensors in the allocator's cache cannot always be used or given back."""
    verdict: Verdict
    running_out: float | None
    note: str | None = None
    """How it was found, or why it is not known, or why it needs more."""

    @property
    def helps(self) -> bool | None:
        """Whether it needs less, by more than needs are told apart; None where it is not known."""
        if self.gain_bytes is None or self.needed_bytes is None:
            return None
        return self.gain_bytes > TOLD_APART * self.needed_bytes


@dataclass(frozen=True, kw_only=True)
class LargestBatch:
    """The most examples in a step with which it is still said to fit."""

    batch_size: int | None
    """None where not even one example fits, or it is not known."""
    note: str
    """How sure that is, or why it is not known."""


@dataclass(frozen=True, kw_only=True)
class MemoryAnswer:
    """What is known of the memory of a step on a device."""

    title: str
    """What is trained."""
    device: Device | None
    target: str
    estimate: MemoryEstimate | None
    missing: str | None
    """Why there is no estimate; None where there is one."""
    ram: RamEstimate | None = None
    """Of training on a processor."""
    parameters: int | None = None
    """Of the traced model."""
    step: TracedStep | None = None
    """Counts of the traced step, for code that has no layer graph."""
    alternatives: tuple[Alternative, ...] = ()
    largest_batch: LargestBatch | None = None
    notes: tuple[str, ...] = ()
