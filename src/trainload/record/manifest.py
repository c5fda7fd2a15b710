"""run.json: what was run, where, with what, and how it ended.

Written whole and swapped in by rename, so that a reader sees the old one or the new one.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from trainload.checked import build_checked
from trainload.errors import (
    RecordError,
    RecordIncomplete,
    RecordTooNew,
    RecordTooOld,
    WorkloadError,
)
from trainload.files import write_whole
from trainload.record.layout import MANIFEST
from trainload.record.migrate import MIGRATIONS

FORMAT = 1
OLDEST_FORMAT = 1

Outcome = Literal["completed", "failed", "out_of_memory", "killed", "timed_out", "interrupted"]


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The run's start and end on both clocks; intervals use the monotonic one."""

    start_s: float
    start_wall_s: float
    end_s: float | None = None
    end_wall_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of run.json."""

    format: int = FORMAT
    run_id: str
    created: str
    """Wall-clock time of the start, ISO 8601, UTC."""
    trainload_version: str
    framework: str
    workload: Mapping[str, Any]
    setting: Mapping[str, Any]
    """`asked` (text and threads), `resolved` (checked against the machine), `obtained`."""
    machine: Mapping[str, Any]
    clock: Clock
    driver: Mapping[str, Any] = field(default_factory=dict)
    software: Mapping[str, Any] = field(default_factory=dict)
    meters: tuple[Any, ...] = ()
    sampler: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    """Rows, groups and steps as the worker found them."""
    model: Mapping[str, Any] = field(default_factory=dict)
    memory: Mapping[str, Any] = field(default_factory=dict)
    """What the worker itself saw: resident memory at the start of building and its peak, peaks of
    torch's allocator on its device; bytes, null where nothing told them. {} where it never said."""
    layers: Mapping[str, Any] | None = None
    """`budget`, `windows` (how many), `cost_s`, `failure`; None where layers were not traced."""
    task: Literal["train", "validate"] = "train"
    """`validate` trains nothing: it scores the checkpoint that `continues` names."""
    continues: Mapping[str, Any] | None = None
    """The checkpoint it began from: `run_id`, `path`, `epoch`, `step`, `framework`; else None."""
    checkpoints: tuple[Any, ...] = ()
    """`file`, `epoch`, `step`, `bytes` and `cost_s` of each checkpoint in the directory."""
    processes: int = 1
    """How many processes train together; the first one, of rank 0, speaks for the run."""
    phases: tuple[Any, ...] = ()
    """`name`, `start_s`, `end_s` (null where the phase never ended), seconds since the start."""
    training_completed: bool | None = None
    """Whether the training itself reached its end, whatever became of the measurement."""
    outcome: Outcome | None = None
    """None while the run goes on."""
    outcome_reason: str | None = None
    overhead: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    damaged_lines: int = 0
    sealed: bool = False


def load_manifest(run_dir: Path) -> Manifest:
    """The manifest of a run directory, migrated to this version's format in memory."""
    path = run_dir / MANIFEST
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if not run_dir.exists():
            raise RecordError(f"no such run: {run_dir}") from None
        if run_dir.is_dir():
            raise RecordIncomplete(f"{run_dir} is no run directory: it has no {MANIFEST}") from None
        raise RecordError(f"{run_dir} is no directory; give the directory of a run") from None
    except NotADirectoryError:
        raise RecordError(f"{run_dir} is no directory; give the directory of a run") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"cannot read {path}: {error}") from error
    return parse_manifest(text, str(path))


def parse_manifest(text: str, where: str) -> Manifest:
    """A manifest from its text; only RecordErrors are raised, whatever the text."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{where} is damaged: {error}") from None
    if not isinstance(document, dict):
        raise RecordError(f"{where} is damaged: not a JSON object")
    written = document.get("format")
    if not isinstance(written, int) or isinstance(written, bool):
        raise RecordError(f"{where} states no format number; it is no run of trainload")
    if written > FORMAT:
        raise RecordTooNew(
            f"{where} has format {written}, this trainload reads up to {FORMAT}; upgrade trainload"
        )
    if written < OLDEST_FORMAT:
        raise RecordTooOld(
            f"{where} has format {written}, the oldest this trainload reads is {OLDEST_FORMAT}"
        )
    for version in range(written, FORMAT):
        document = MIGRATIONS[version](document)
    try:
        return build_checked(Manifest, document, where)
    except WorkloadError as error:
        raise RecordError(f"damaged record: {error}") from None


def save_manifest(run_dir: Path, manifest: Manifest) -> None:
    """Swap in a new run.json; RecordError where the disk or the folder refuses."""
    path = run_dir / MANIFEST
    text = json.dumps(asdict(manifest), indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    try:
        write_whole(path, text.encode("utf-8"), sync=True)
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror}") from error
