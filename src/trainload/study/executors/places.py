"""The words after `--on`: where a study's cells are to run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trainload.errors import UsageError
from trainload.study.executors.executor import Executor, Tell
from trainload.study.executors.parcels import Load

WORDS = "ray, ray:ADDRESS, slurm, ssh:HOST"


def open_place(
    on: str, folder: Path, *, load: Load, tell: Tell, sbatch: Sequence[str] = ()
) -> Executor:
    """The executor that the words name; UsageError where they name none.

    `folder` is the study's, held by who calls; `sbatch` are options for Slurm.
    """
    kind, _, rest = on.partition(":")
    if sbatch and kind != "slurm":
        raise UsageError(f"--sbatch is for --on slurm, not for --on {on}")
    if kind == "ray":
        from trainload.study.executors.ray import RayExecutor

        return RayExecutor(rest or None, load=load, tell=tell)
    if on == "slurm":
        from trainload.study.executors.slurm import SlurmExecutor

        return SlurmExecutor(folder, sbatch, load=load, tell=tell)
    if kind == "ssh":
        from trainload.study.executors.ssh import SshExecutor

        return SshExecutor(rest, load=load, tell=tell)
    raise UsageError(f"--on {on}: no such place; {WORDS}")
