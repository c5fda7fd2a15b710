"""run.json: what was run, where, with what, and how it ended.

Written whole and swapped in by rename, so that a reader sees the old one or the new one. Reading
keeps what this version does not know and gives it back when the file is written again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from trainload.errors import RecordError, RecordIncomplete, RecordTooNew, RecordTooOld
from trainload.files import write_whole
from trainload.hardware import Job, Machine
from trainload.record.inside import parse_json, read_inside
from trainload.record.layout import MANIFEST
from trainload.record.migrate import MIGRATIONS, mend_words
from trainload.record.parts import (
    CheckpointOrigin,
    Clock,
    Imported,
    LayerTracing,
    OverheadMeasurement,
    Phase,
    Processes,
    RecordedMark,
    RecordedMeter,
    RecordedModel,
    RecordedRank,
    RecordedSetting,
    SamplerUse,
    SavedCheckpoint,
    StudyCell,
)
from trainload.workload import RecordedGraph, RecordedWorkload
from trainload_worker.protocol.checked import CheckError, not_written, read_leniently, to_json
from trainload_worker.protocol.events import DataReady, MemoryUse
from trainload_worker.protocol.outcomes import Outcome

FORMAT = 1
FORMAT_MINOR = 6
"""Grows with every field added; an older trainload still reads what it knows."""
OLDEST_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of run.json."""

    format: int = FORMAT
    format_minor: int | None = FORMAT_MINOR
    run_id: str | None = None
    created: str | None = None
    """Wall-clock time of the start, ISO 8601, UTC."""
    trainload_version: str | None = None
    framework: str | None = None
    workload: RecordedWorkload | None = None
    setting: RecordedSetting = RecordedSetting()
    machine: Machine | None = None
    job: Job | None = None
    """The scheduler's job that it ran in; None outside of one."""
    clock: Clock | None = None
    driver: Processes = Processes()
    software: Mapping[str, str | None] = field(default_factory=dict)
    """Versions by name."""
    meters: tuple[RecordedMeter, ...] = ()
    sampler: SamplerUse = SamplerUse()
    data: DataReady = DataReady()
    """Rows, groups and steps as the worker found them."""
    model: RecordedModel = RecordedModel()
    memory: MemoryUse = MemoryUse()
    """What the worker itself saw."""
    layers: LayerTracing | None = None
    """None where layers were not traced."""
    task: Literal["train", "validate"] | None = "train"
    """`validate` trains nothing: it scores the checkpoint that `continues` names."""
    continues: CheckpointOrigin | None = None
    """The checkpoint it began from."""
    checkpoints: tuple[SavedCheckpoint, ...] = ()
    study: StudyCell | None = None
    """The cell it realises; None where it belongs to no study."""
    imported: Imported | None = None
    """Where it comes from; None where trainload measured it."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables set for its worker by whoever asked for the run."""
    processes: int | None = 1
    """How many processes train together; the first one, of rank 0, speaks for the run."""
    ranks: tuple[RecordedRank, ...] = ()
    """Each of them, in the order of ranks; empty where one trained alone."""
    phases: tuple[Phase, ...] = ()
    marks: tuple[RecordedMark, ...] = ()
    """Moments that somebody marked while it ran."""
    training_completed: bool | None = None
    """Whether the training itself reached its end, whatever became of the measurement."""
    outcome: Outcome | None = None
    """None while the run goes on."""
    outcome_reason: str | None = None
    overhead: OverheadMeasurement | None = None
    warnings: tuple[str, ...] = ()
    damaged_lines: int | None = 0
    sealed: bool | None = False
    """None where the record does not say it soundly: the files then tell."""
    notes: tuple[str, ...] = not_written(tuple)
    """What was wrong or unknown in the file as read, one line each."""
    document: Mapping[str, Any] = not_written(dict)
    """The file as read: fields that this version does not know are written back from here."""

    @property
    def model_name(self) -> str | None:
        """What the run is called after; None where the record does not say."""
        return None if self.workload is None else self.workload.model

    @property
    def batch_size(self) -> int | None:
        """Examples in one step; None where only the program knows."""
        training = self.workload.training if isinstance(self.workload, RecordedGraph) else None
        return None if training is None else training.batch_size

    @property
    def origin_s(self) -> float:
        """The run's start on the monotonic clock; 0 without one, which leaves durations right."""
        return 0.0 if self.clock is None else self.clock.start_s


def load_manifest(run_dir: Path) -> Manifest:
    """The manifest of a run directory, migrated to this version's format in memory."""
    path = run_dir / MANIFEST
    try:
        text = read_inside(path).decode("utf-8")
    except FileNotFoundError:
        if not run_dir.exists():
            raise RecordError(f"no such run: {run_dir}") from None
        if run_dir.is_dir():
            raise RecordIncomplete(f"{run_dir} is no run directory: it has no {MANIFEST}") from None
        raise RecordError(f"{run_dir} is no directory; give the directory of a run") from None
    except NotADirectoryError:
        raise RecordError(f"{run_dir} is no directory; give the directory of a run") from None
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecordError(f"cannot read {path}: {error}") from error
    return parse_manifest(text, str(path))


def parse_manifest(text: str, where: str) -> Manifest:
    """A manifest from its text; only RecordErrors are raised, whatever the text."""
    try:
        # NaN and infinity are no JSON and no figures: missing, as every reader will see them.
        document = parse_json(text, parse_constant=lambda _: None)
    except ValueError as error:
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
    return _read_document(mend_words(document), where)


def _read_document(document: dict[str, Any], where: str) -> Manifest:
    notes: list[str] = []
    minor = document.get("format_minor", 0)
    if isinstance(minor, int) and minor > FORMAT_MINOR:
        notes.append(
            f"written by a later version (format {FORMAT}.{minor}, this one knows "
            f"{FORMAT}.{FORMAT_MINOR}): what it added is kept, not shown"
        )
    wrong: list[str] = []
    try:
        found = read_leniently(Manifest, document, wrong)
    except CheckError as error:
        raise RecordError(f"damaged record: {where}: {error}") from None
    notes += [f"{MANIFEST}: {text}; taken as missing" for text in wrong]
    return replace(found, format=FORMAT, notes=tuple(notes), document=document)


def manifest_json(manifest: Manifest) -> dict[str, Any]:
    """The document to write: typed values, and whatever else the file held when it was read."""
    document: dict[str, Any] = _merged(manifest.document, to_json(manifest))
    return document


def _merged(kept: Any, told: Any) -> Any:
    """`told` over `kept`: what only `kept` has stays, and so does what `told` is silent about."""
    if isinstance(kept, Mapping) and isinstance(told, Mapping):
        both = {name: _merged(kept[name], told[name]) for name in told if name in kept}
        return {**kept, **told, **both}
    if isinstance(kept, list) and isinstance(told, list) and len(kept) == len(told):
        return [_merged(old, new) for old, new in zip(kept, told, strict=True)]
    silent = told is None or (told in ({}, []) and not isinstance(kept, type(told)))
    return kept if silent else told


def save_manifest(run_dir: Path, manifest: Manifest) -> None:
    """Swap in a new run.json; RecordError where the disk or the folder refuses."""
    path = run_dir / MANIFEST
    document = manifest_json(manifest)
    text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    try:
        # A name that is no UTF-8 stands in it escaped, as JSON allows.
        write_whole(path, text.encode("utf-8", "backslashreplace"), sync=True)
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror}") from error
