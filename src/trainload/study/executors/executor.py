"""What a place that runs cells must offer, and what it is told and tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from trainload.record import Run, StudyCell


@dataclass(frozen=True, kw_only=True)
class Task:
    """One repetition of a cell, ready to be run anywhere."""

    place: StudyCell
    """Goes into the run's record, by which the run is found again."""
    keywords: Mapping[str, Any]
    """What `trainload.run` is told: plain JSON values, `what` among them."""
    runs: Path
    """The study's folder of runs, in which the run directory has to end up whole."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """How a task ended."""

    task: Task
    run: Run | None
    """The run, read back from the study's folder; None where none came about."""
    problem: str | None = None
    """Why none came about."""
    lost: bool = False
    """Whether its place went away: the task is to be run again, at no retry's cost."""


class Executor(Protocol):
    """A place that runs cells."""

    capacity: int
    """How many tasks it takes at once; one measured run a machine."""

    def submit(self, task: Task) -> None:
        """Take a task; the caller submits no more than the capacity."""

    def collect(self) -> Sequence[Finished]:
        """Wait until at least one task has ended, and give back those that have."""

    def cancel(self) -> None:
        """End what runs; `collect` then gives it back as interrupted or lost."""

    def close(self) -> None:
        """Give back what it holds; harmless when called twice."""
