"""Studies from Python: plan, run, resume, ask how far one is. Prints nothing.

from trainload.api.studying import run_study

run_study("study.yaml", out="studies", words=["batch_size=64,128"])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainload.api.loading import load
from trainload.api.running import run
from trainload.run import RunProgress, render_progress
from trainload.study.executors import Executor, LocalExecutor, Task
from trainload.study.executors.parcels import forget_parts
from trainload.study.executors.places import open_place
from trainload.study.executors.slurm_queue import check_not_queued
from trainload.study.file import StudyFile, load_study
from trainload.study.folder import ask_to_stop, held, is_held, save_plan
from trainload.study.plan import StudyPlan, plan_study
from trainload.study.runner import SessionResult, run_cells
from trainload.study.status import StudyStatus, read_status

if TYPE_CHECKING:
    from trainload.record import Run

Show = Callable[[str], None]
OUT = "studies"


@dataclass(frozen=True, kw_only=True)
class StudySession:
    """What one call of `run_study` did, and where the study stands now."""

    path: Path
    plan: StudyPlan
    result: SessionResult
    status: StudyStatus


def plan(
    what: str | Path, *, words: Sequence[str] = (), quick: bool = False, out: str | Path = OUT
) -> StudyPlan:
    """The plan of a study file or a shipped study; StudyError names file, line and key."""
    return plan_study(load_study(what, words=words, quick=quick), Path(out))


def run_study(
    what: str | Path | StudyFile,
    *,
    out: str | Path = OUT,
    words: Sequence[str] = (),
    quick: bool = False,
    on: str | None = None,
    sbatch: Sequence[str] = (),
    show: Show | None = None,
) -> StudySession:
    """Run what is left of a study; called again it goes on, and runs nothing twice.

    `what` is a study's file, a shipped name, or a study that was read already.
    `on` names other machines: `ray`, `ray:ADDRESS`, `slurm` with options in `sbatch`, `ssh:HOST`.
    `show` takes a line about how far it is; one that ends in a newline is meant to stay.
    """
    study = what if isinstance(what, StudyFile) else load_study(what, words=words, quick=quick)
    folder = Path(out) / study.name
    with held(folder):
        made = plan_study(study, Path(out), elsewhere=on is not None)
        save_plan(folder, study, ((one, made.costs[one.identity].seconds) for one in made.cells))
        forget_parts(folder)
        if on != "slurm":
            check_not_queued(folder)
        tell = show or (lambda _text: None)
        executor: Executor
        if on is None:
            executor = LocalExecutor(_runner(study, made, show))
        else:
            executor = open_place(on, folder, load=load, tell=tell, sbatch=sbatch)
        result = run_cells(study, made.cells, folder, executor, tell=tell)
    return StudySession(path=folder, plan=made, result=result, status=status(folder))


def status(folder: str | Path) -> StudyStatus:
    """How far the study of a folder is; StudyError where it is none."""
    return read_status(Path(folder))


def stop(folder: str | Path) -> bool:
    """Have a running study finish its running cell and end; False where none runs."""
    read_status(Path(folder))
    if not is_held(Path(folder)):
        return False
    ask_to_stop(Path(folder))
    return True


def _runner(study: StudyFile, made: StudyPlan, show: Show | None) -> Callable[[Task], Run]:
    titles = {cell.identity: cell.title for cell in made.cells}
    wanted = made.runs - made.settled
    number = 0

    def run_task(task: Task) -> Run:
        nonlocal number
        number += 1
        # More where cells are repeated until it is enough, or a run did not count.
        head = f"{study.name}: run {number} of {max(number, wanted)}, {titles[task.place.cell]}"

        def tell(progress: RunProgress) -> None:
            if show is not None:
                show(f"{head} · {render_progress(progress, 300).strip()}")

        return run(
            **task.keywords,
            out=task.runs,
            study=task.place,
            show=None if show is None else tell,
        )

    return run_task
