"""summary.json: a sealed run in figures, small enough to read a thousand of them.

Never the truth: it names the run.json it was made of, and one of another run.json, of an older
version or damaged is passed over and made again. What stands in it is worked out by analyse.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainload.errors import RecordError
from trainload.files import write_whole
from trainload.record.layout import FIGURES, MANIFEST
from trainload_worker.protocol.checked import CheckError, build_checked, to_json

VERSION = 2
"""Raised when a figure is added or means something else: older files are then made again."""
MOST_BYTES = 4 * 2**20


@dataclass(frozen=True, kw_only=True)
class RunFigures:
    """One run as a study sees it."""

    version: int = VERSION
    run_sha256: str
    """Of the run.json that it was made of."""
    run_id: str
    outcome: str | None = None
    outcome_reason: str | None = None
    study: str | None = None
    """Name of the study that it belongs to; None of none."""
    cell: str | None = None
    repetition: int | None = None
    factors: Mapping[str, Any] = field(default_factory=dict)
    """The level of each factor of its study."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What it was asked to be: workload, framework, setting; names as a user writes them."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Headline figures, means of states and amounts of counters; what is missing is not there."""


def manifest_sha256(run_dir: Path) -> str:
    """Digest of run.json; RecordError where it cannot be read."""
    try:
        return hashlib.sha256((run_dir / MANIFEST).read_bytes()).hexdigest()
    except OSError as error:
        raise RecordError(f"cannot read {run_dir / MANIFEST}: {error.strerror}") from error


def load_figures(run_dir: Path) -> RunFigures | None:
    """The figures kept in a run directory; None where they have to be made (again)."""
    path = run_dir / FIGURES
    try:
        if path.is_symlink() or path.stat().st_size > MOST_BYTES:
            return None
        found = build_checked(RunFigures, json.loads(path.read_bytes()), "")
    except (OSError, ValueError, RecursionError, CheckError):
        return None
    current = found.version == VERSION and found.run_sha256 == manifest_sha256(run_dir)
    return found if current else None


def save_figures(run_dir: Path, figures: RunFigures) -> bool:
    """Keep the figures in the run directory; False where it may not be written."""
    text = json.dumps(to_json(figures), ensure_ascii=False, allow_nan=False)
    try:
        write_whole(run_dir / FIGURES, text.encode("utf-8", "backslashreplace"))
    except OSError:
        return False
    return True
