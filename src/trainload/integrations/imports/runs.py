"""A run that others measured, as a value; how it becomes a run directory."""

from __future__ import annotations

import gzip
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trainload._version import __version__
from trainload.errors import RecordError
from trainload.integrations.imports.source import open_source
from trainload.record import (
    SAMPLE_HEAD,
    AskedSetting,
    Clock,
    GivenFigure,
    Imported,
    LineAppender,
    Manifest,
    RecordedMeter,
    RecordedQuantity,
    RecordedSetting,
    RunDirectory,
    create_run_directory,
    load_facts,
)
from trainload.record.layout import EVENTS, SAMPLES, trace_file
from trainload.workload import RecordedWatch
from trainload_worker.protocol.outcomes import Outcome

_FRAMEWORKS = {"pytorch": "torch"}
"""Other people's words for ours."""
_TAKEN = ("model", "framework", "setting")


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """What the user says beside the files."""

    units: Mapping[str, str] = field(default_factory=dict)
    interval_s: float | None = None
    """Seconds from one reading to the next, for files that tell no times."""
    config: Mapping[str, str] = field(default_factory=dict)
    """`model`, `framework`, `setting` and whatever else was trained with."""


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Readings over time: what each column is, and rows of seconds and values."""

    quantities: tuple[RecordedQuantity, ...]
    rows: Iterable[tuple[float, Sequence[float | None]]]


@dataclass(frozen=True, kw_only=True)
class ImportedRun:
    """One run of a file; what the file does not tell is None or empty."""

    kind: str
    files: Mapping[str, str]
    place: str | None = None
    model: str
    framework: str | None = None
    setting: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    created: str | None = None
    start_wall_s: float | None = None
    length_s: float | None = None
    events: Sequence[Mapping[str, Any]] = ()
    """As a worker says them, in seconds since the run's start."""
    samples: Samples | None = None
    figures: Mapping[str, GivenFigure] = field(default_factory=dict)
    raw: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    outcome: Outcome = "completed"
    outcome_reason: str | None = None
    trace: Path | None = None
    """A trace to keep beside it, packed with gzip."""


def described(options: ImportOptions, stem: str) -> dict[str, Any]:
    """Model, framework, setting and the rest as the user says them; the file's name without one."""
    config = dict(options.config)
    return {
        "model": config.get("model", stem),
        "framework": framework_word(config.get("framework")),
        "setting": config.get("setting"),
        "config": {name: value for name, value in config.items() if name not in _TAKEN},
    }


def framework_word(word: str | None) -> str | None:
    """A framework's name as trainload writes it; one that it does not know stays."""
    return None if word is None else _FRAMEWORKS.get(word.lower(), word)


def write_run(out: Path, run: ImportedRun) -> Path:
    """Make the run directory of an imported run; nothing is left of one that cannot be written."""
    directory = create_run_directory(out, _folder_name(run), _manifest(run))
    try:
        count, last_s = _write_lines(directory.path, run)
        _close(directory, run, count, last_s)
    except BaseException:
        directory.lock.free()
        shutil.rmtree(directory.path, ignore_errors=True)
        raise
    return directory.path


def _folder_name(run: ImportedRun) -> str:
    words = [run.model, run.framework, run.setting]
    text = "-".join(word for word in words if word)
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in text).lstrip(".") or "imported"


def _manifest(run: ImportedRun) -> Manifest:
    named = ", ".join(run.files)
    raw = f"; no unit is known of {', '.join(run.raw)}: kept raw" if run.raw else ""
    return Manifest(
        created=run.created,
        trainload_version=__version__,
        framework=run.framework,
        workload=RecordedWatch(model=run.model, watched=dict(run.config)),
        setting=RecordedSetting(asked=AskedSetting(setting=run.setting)),
        meters=()
        if run.samples is None
        else (RecordedMeter(name=run.kind, quantities=run.samples.quantities),),
        imported=Imported(
            kind=run.kind,
            files=dict(run.files),
            place=run.place,
            at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            figures=dict(run.figures),
            raw=run.raw,
            labels=dict(run.labels),
        ),
        warnings=(f"imported from {named}, not measured by trainload{raw}", *run.notes),
    )


def _write_lines(path: Path, run: ImportedRun) -> tuple[int, float | None]:
    """Write events and samples; how many samples, and the time of the last."""
    events = LineAppender(path / EVENTS)
    for event in run.events:
        events.append(event)
    events.close()
    lost, reason, count, last_s = events.lost_lines, events.last_error, 0, None
    if run.samples is not None:
        samples = LineAppender(path / SAMPLES)
        columns = [quantity.column for quantity in run.samples.quantities]
        samples.append({"columns": [*SAMPLE_HEAD, *columns]})
        for count, (t_s, values) in enumerate(run.samples.rows, start=1):
            samples.append([count - 1, t_s, None, None, *values])
            last_s = t_s if last_s is None else max(last_s, t_s)
        samples.close()
        lost, reason = lost + samples.lost_lines, reason or samples.last_error
    if lost:
        raise RecordError(f"cannot write into {path.parent}: {reason}; choose another --out")
    if run.trace is not None:
        _keep_trace(run.trace, path / trace_file(0))
    return count, last_s


def _keep_trace(trace: Path, place: Path) -> None:
    """Copy a trace, packed with gzip if it is not yet."""
    with open_source(trace) as file, place.open("wb") as out:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if packed:
            shutil.copyfileobj(file, out)
            return
        with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=6, mtime=0) as packing:
            shutil.copyfileobj(file, packing)


def _close(directory: RunDirectory, run: ImportedRun, count: int, last_s: float | None) -> None:
    facts, _ = load_facts(directory.path, 0.0)
    ends = [s for s in (run.length_s, last_s, facts.last_s) if s is not None]
    manifest = directory.manifest
    if ends:
        end_s = max(ends)
        wall = run.start_wall_s
        clock = Clock(
            start_s=0.0,
            start_wall_s=wall,
            end_s=end_s,
            end_wall_s=None if wall is None else wall + end_s,
        )
        manifest = replace(facts.written_into(manifest), clock=clock)
    if run.samples is not None:
        manifest = replace(manifest, sampler=replace(manifest.sampler, samples=count))
    directory.close(
        replace(
            manifest,
            training_completed=None,
            outcome=run.outcome,
            outcome_reason=run.outcome_reason,
        )
    )
