"""The job that a scheduler started this process in, as Slurm and Kubernetes tell it.

Reads the environment and one file that names the namespace; asks no service, touches no secret.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, kw_only=True)
class Job:
    """Identifiers by which a scheduler's own accounts are found; None where it does not say."""

    scheduler: Literal["slurm", "kubernetes"]
    id: str | None = None
    """Slurm's job number; the name of a Kubernetes pod."""
    name: str | None = None
    """Slurm's name of the job; the name of the Kubernetes job, where the pod is told it."""
    group: str | None = None
    """The cluster of Slurm; the namespace of Kubernetes."""
    array_id: str | None = None
    task: str | None = None
    """Which of an array or of an indexed job it is."""
    step: str | None = None
    restarts: int | None = None


def read_job(
    environment: Mapping[str, str] = os.environ, namespace_file: Path = _NAMESPACE
) -> Job | None:
    """The job around this process; None outside of one."""
    told = {name: value[:200] for name, value in environment.items() if value}
    if "SLURM_JOB_ID" in told:
        restarts = told.get("SLURM_RESTART_COUNT", "")
        return Job(
            scheduler="slurm",
            id=told["SLURM_JOB_ID"],
            name=told.get("SLURM_JOB_NAME"),
            group=told.get("SLURM_CLUSTER_NAME"),
            array_id=told.get("SLURM_ARRAY_JOB_ID"),
            task=told.get("SLURM_ARRAY_TASK_ID"),
            step=told.get("SLURM_STEP_ID"),
            restarts=int(restarts) if restarts.isdecimal() else None,
        )
    if "KUBERNETES_SERVICE_HOST" in told:
        return Job(
            scheduler="kubernetes",
            # A pod's host name is its own, unless its specification names another.
            id=told.get("POD_NAME") or told.get("HOSTNAME"),
            name=told.get("JOB_NAME"),
            group=told.get("POD_NAMESPACE") or _read_word(namespace_file),
            task=told.get("JOB_COMPLETION_INDEX"),
        )
    return None


def _read_word(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()[:200] or None
    except OSError:
        return None
