"""What a place that runs cells must offer, and what it is told and tells."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from trainload.errors import StudyError
from trainload.record import Run, StudyCell
from trainload.run.cell import CellRequest
from trainload.run.settle import CoolDown
from trainload.workload import looks_like_script

ALL = 10**9
"""The capacity of a place that queues by itself."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One repetition of a cell, ready to be run anywhere."""

    place: StudyCell
    """Goes into the run's record, by which the run is found again."""
    keywords: Mapping[str, Any]
    """What `trainload.run` is told: plain JSON values, `what` among them."""
    runs: Path
    """The study's folder of runs, in which the run directory has to end up whole."""
    cool_down: CoolDown = CoolDown(limit_s=0.0)
    drop_caches: bool = False
    """What another machine does before the run; this one is settled by the runner."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """What a machine must have for it, beside accelerators."""

    @property
    def accelerators(self) -> int:
        """How many its setting names; 0 where it names none, or none was given."""
        match = re.search(r"\+gpu([0-9,-]+)", self.keywords.get("setting") or "")
        if match is None:
            return 0
        ends = [part.split("-") for part in match[1].split(",") if part]
        return sum(int(end[-1]) - int(end[0]) + 1 for end in ends if all(end))

    @property
    def title(self) -> str:
        """The levels of its cell."""
        levels = " ".join(f"{name}={level}" for name, level in self.place.factors.items())
        return levels or self.place.study

    def request(self) -> CellRequest:
        """The task as another machine is told of it, its script's bytes along."""
        what, script = self.keywords.get("what"), None
        if isinstance(what, str) and looks_like_script(what):
            try:
                script = base64.b64encode(Path(what).expanduser().read_bytes()).decode("ascii")
            except OSError as error:
                raise StudyError(f"cannot read {what}: {error.strerror}") from error
        return CellRequest(
            keywords=dict(self.keywords),
            study=self.place,
            cool_down=self.cool_down,
            drop_caches=self.drop_caches,
            script=script,
        )


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
    begun: bool = True
    """False for one that was taken back before it began."""


Begun = Callable[[], None]
Tell = Callable[[str], None]
"""Takes a line about how far it is; one that ends in a newline is meant to stay."""


class Executor(Protocol):
    """A place that runs cells, one measured run a machine at a time."""

    capacity: int
    """How many tasks it takes at once; ALL where it has a queue of its own."""
    elsewhere: bool
    """Whether cells run on other machines than this one."""

    def submit(self, task: Task, begun: Begun) -> None:
        """Take a task; `begun` is called, from `submit` or `collect`, when it begins."""

    def collect(self, wait_s: float) -> Sequence[Finished]:
        """Give back tasks that have ended; none where none ends within so many seconds."""

    def cancel(self, *, running: bool) -> None:
        """Take back what has not begun and, with `running`, end what has; `collect` tells of it."""

    def close(self) -> None:
        """Give back what it holds; harmless when called twice."""
