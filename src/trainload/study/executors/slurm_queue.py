"""Slurm's side of a study: array jobs written into its folder, handed to sbatch, seen in squeue.

A batch is known by its job's name, which its folder has too: what was submitted is found again
even where nobody lived to note the number that sbatch gave.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import trainload
from trainload.errors import RecordError, StudyError
from trainload.files import write_whole
from trainload.record import StudyCell
from trainload.record.inside import LARGEST_LINES_BYTES, is_plain, open_inside, split_lines
from trainload.record.lines import parse_line
from trainload.run.cell import render_request
from trainload.study.executors.executor import Task
from trainload_worker.protocol.checked import CheckError, build_checked

SLURM = "slurm"
"""Folder of a study for its batches."""
TASKS, SCRIPT, JOB = "tasks.jsonl", "array.sh", "job"
MOST_TASKS = 1000
"""Of one array; Slurm's own default is 1001."""
SUBMITTING_S = 30.0
"""For how long a batch without a number may still be on its way to Slurm."""
_COMMAND_LIMIT_S = 120.0

CellKey = tuple[str, int]
"""Cell and repetition."""


@dataclass(frozen=True)
class Slot:
    """One task of a batch."""

    batch: Path
    index: int

    @property
    def done(self) -> Path:
        """Names the run directory, once the run has ended."""
        return self.batch / f"{self.index}.done"

    @property
    def problem(self) -> Path:
        """Says why nothing was started."""
        return self.batch / f"{self.index}.problem"

    @property
    def log(self) -> Path:
        """What the task printed, and what Slurm had to say of it."""
        return self.batch / f"{self.index}.log"

    @property
    def arriving(self) -> Path:
        """Where the run directory is until it is whole."""
        return self.batch / f"arriving-{self.index}"


class Unanswered(Exception):
    """Slurm's controller did not answer; the text is its complaint."""


def check_commands() -> None:
    """StudyError where this machine is no place to submit from."""
    for name in ("sbatch", "squeue", "scancel"):
        if shutil.which(name) is None:
            raise StudyError(f"--on slurm: no command {name} here; submit from a login node")


def list_batches(folder: Path) -> list[Path]:
    """The batches of a study's folder, the oldest first."""
    try:
        found = [path for path in (folder / SLURM).iterdir() if is_plain(path / TASKS)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found, key=lambda path: (path / TASKS).stat().st_mtime_ns)


def cells_of(batch: Path) -> Iterator[tuple[CellKey, Slot]]:
    """What each task of a batch runs."""
    try:
        with open_inside(batch / TASKS, largest_bytes=LARGEST_LINES_BYTES) as file:
            for index, (line, _) in enumerate(split_lines(file)):
                value = None if line is None else parse_line(line)
                told = value.get("study") if isinstance(value, dict) else None
                place = build_checked(StudyCell, told, f"line {index + 1}")
                yield (place.cell, place.repetition), Slot(batch, index)
    except OSError as error:
        raise RecordError(f"cannot read {batch / TASKS}: {error.strerror}") from error
    except CheckError as error:
        raise RecordError(f"{batch / TASKS} is damaged: {error}") from None


def see_queue(folder: Path) -> dict[CellKey, tuple[Slot, str]]:
    """Every task of the study that Slurm has, with its state, such as PENDING or RUNNING.

    Unanswered where squeue fails. Asks nothing where nothing was ever submitted.
    """
    batches = list_batches(folder)
    if not batches:
        return {}
    format_ = "--format=%j|%K|%T"
    said = _call(["squeue", "--noheader", "--array", f"--user={os.getuid()}", format_])
    states: dict[tuple[str, str], str] = {}
    for line in said.splitlines():
        name, index, state = (*line.strip().split("|"), "", "")[:3]
        states[name, index] = state
    names = {name for name, _ in states}
    return {
        key: (slot, states[batch.name, str(slot.index)])
        for batch in batches
        if batch.name in names
        for key, slot in cells_of(batch)
        if (batch.name, str(slot.index)) in states
    }


def check_not_queued(folder: Path) -> None:
    """StudyError where cells of the study are in Slurm: run elsewhere too, they would run twice."""
    try:
        queue = see_queue(folder)
    except Unanswered:
        return  # a machine that is none of Slurm's cannot know
    if queue:
        raise StudyError(
            f"{folder}: {len(queue)} runs are in Slurm; go on with --on slurm, or scancel them"
        )


def submit_batch(
    folder: Path, tasks: Sequence[Task], options: Sequence[str]
) -> Mapping[CellKey, Slot]:
    """Write an array job of tasks that need the same, and hand it to sbatch."""
    # The study's folder may be moved and copied; a job's name must be its own.
    name = f"trainload-{folder.name}-{secrets.token_hex(6)}"
    batch = (folder / SLURM / name).resolve()
    try:
        batch.mkdir(parents=True)
        lines = "".join(render_request(task.request()) + "\n" for task in tasks)
        write_whole(batch / SCRIPT, array_script(batch, tasks).encode("utf-8"))
        write_whole(batch / TASKS, lines.encode("utf-8"))
    except OSError as error:
        raise RecordError(f"cannot write into {batch}: {error.strerror}") from error
    try:
        number = _call(["sbatch", "--parsable", *options, str(batch / SCRIPT)])
    except Unanswered as error:
        shutil.rmtree(batch, ignore_errors=True)
        raise StudyError(f"sbatch refused: {error}; the same command goes on") from None
    write_whole(batch / JOB, number.strip().encode("utf-8"))
    return dict(cells_of(batch))


def array_script(batch: Path, tasks: Sequence[Task]) -> str:
    """The job as sbatch takes it; options on its command line win over those within."""
    asked = {name: f"{amount:g}" for name, amount in sorted(tasks[0].resources.items())}
    if tasks[0].accelerators:
        asked["gpu"] = str(tasks[0].accelerators)
    gres = ",".join(f"{name}:{amount}" for name, amount in asked.items())
    assert trainload.__file__ is not None, "a package with an __init__"
    source = Path(trainload.__file__).resolve().parents[1]
    door = shlex.join([sys.executable, "-m", "trainload.run", "--request", str(batch / TASKS)])
    runs = shlex.join(["--out", str(batch.parents[1] / "runs"), "--arriving"])
    return "\n".join(
        [
            "#!/bin/bash",
            f"#SBATCH --job-name={batch.name}",
            f"#SBATCH --array=0-{len(tasks) - 1}",
            f'#SBATCH --output="{batch}/%a.log"',
            "#SBATCH --open-mode=append",
            "# One measured run a node; a lost node's task is queued again by Slurm itself.",
            "#SBATCH --exclusive",
            "#SBATCH --requeue",
            *([f"#SBATCH --gres={gres}"] if gres else []),
            f"export PYTHONPATH={shlex.quote(str(source))}${{PYTHONPATH:+:$PYTHONPATH}}",
            f'exec {door} --index "$SLURM_ARRAY_TASK_ID" \\',
            f'  {runs} {shlex.quote(str(batch / "arriving-"))}"$SLURM_ARRAY_TASK_ID"',
            "",
        ]
    )


def withdraw_pending(folder: Path) -> None:
    """Take back what waits in Slurm's queue; what runs goes on."""
    for batch in list_batches(folder):
        _call(["scancel", "--state=PENDING", f"--jobname={batch.name}", f"--user={os.getuid()}"])


def finish_batch(batch: Path, runs: Path) -> None:
    """Rename into place whatever a task had named as done when it was ended."""
    for _, slot in cells_of(batch):
        take_done(slot, runs)


def take_done(slot: Slot, runs: Path) -> Path | None:
    """The run directory of a task that is done, in its place; None while it is not."""
    try:
        name = slot.done.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    place, waiting = runs / name, slot.arriving / "runs" / name
    if not place.exists() and waiting.exists():
        waiting.rename(place)
    return place if place.exists() else None


def await_submission(batch: Path) -> None:
    """Wait while a batch whose submitter was killed may still be on its way to Slurm."""
    while not (batch / JOB).exists():
        age_s = time.time() - (batch / TASKS).stat().st_mtime
        if not 0 <= age_s < SUBMITTING_S:
            return
        time.sleep(min(1.0, SUBMITTING_S - age_s))


def _call(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_COMMAND_LIMIT_S, errors="replace"
        )
    except OSError as error:
        raise Unanswered(f"{command[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired:
        raise Unanswered(f"{command[0]}: no answer in {_COMMAND_LIMIT_S:.0f} s") from None
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2] or f"ended with {done.returncode}"
        raise Unanswered(last.removeprefix(f"{command[0]}: "))
    return done.stdout
