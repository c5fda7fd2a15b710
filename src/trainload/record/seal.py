"""Sealing: a closed run's appended lines become parquet tables.

Tables are written beside the lines and renamed, run.json then says so, and only after that are
the lines removed; a crash in between leaves a directory that can be sealed again.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from trainload.errors import RecordError
from trainload.record.directory import DirectoryLock, close_if_abandoned
from trainload.record.layout import (
    EPOCHS_TABLE,
    EVENTS,
    EVENTS_GLOB,
    SAMPLES,
    SAMPLES_TABLE,
    STEPS_TABLE,
    events_file,
    steps_table,
)
from trainload.record.manifest import Manifest, save_manifest
from trainload.record.sound import save_table
from trainload.record.tables import sample_table, step_tables
from trainload.record.traces import ranks_of, remove_windows, seal_traces


def seal_run(run_dir: Path) -> Manifest:
    """Close the run if its driver is gone, then turn its lines into tables.

    RecordError where the run still goes on. Sealing a sealed run only clears leftovers.
    """
    manifest = seal_if_free(run_dir)
    if manifest is None:
        raise RecordError(f"{run_dir} is still running (or being sealed); wait for its end")
    return manifest


def seal_if_free(run_dir: Path) -> Manifest | None:
    """As `seal_run`; None where another process holds the directory."""
    lock = DirectoryLock(run_dir)
    try:
        if not lock.try_take():
            return None
        manifest = close_if_abandoned(run_dir)
        if not is_sealed(run_dir, manifest):
            manifest = _write_tables(run_dir, manifest)
        for name in (EVENTS, SAMPLES):
            (run_dir / name).unlink(missing_ok=True)
        for path in run_dir.glob(EVENTS_GLOB):
            path.unlink(missing_ok=True)
        remove_windows(run_dir)
        return manifest
    except OSError as error:
        raise RecordError(f"cannot seal {run_dir}: {error.strerror}") from error
    finally:
        lock.free()


def is_sealed(run_dir: Path, manifest: Manifest) -> bool:
    """Whether the tables are the record: as run.json says, or since the lines are gone."""
    gone = (run_dir / STEPS_TABLE).exists() and not (run_dir / EVENTS).exists()
    return bool(manifest.sealed) or gone


def _write_tables(run_dir: Path, manifest: Manifest) -> Manifest:
    start_s = manifest.origin_s
    steps, epochs, damaged_events = step_tables(run_dir / EVENTS, start_s)
    samples, damaged_samples = sample_table(run_dir / SAMPLES, start_s)
    for name, frame in ((STEPS_TABLE, steps), (EPOCHS_TABLE, epochs), (SAMPLES_TABLE, samples)):
        save_table(run_dir / name, frame, sync=True)
    for rank in ranks_of(run_dir)[1:]:
        steps, _, damaged = step_tables(run_dir / events_file(rank), start_s)
        damaged_events += damaged
        save_table(run_dir / steps_table(rank), steps, sync=True)
    notes: tuple[str, ...] = ()
    if manifest.layers is not None:
        notes = seal_traces(run_dir, start_s, manifest.layers.budget)
    manifest = replace(
        manifest,
        sealed=True,
        damaged_lines=damaged_events + damaged_samples,
        warnings=(*manifest.warnings, *notes),
    )
    save_manifest(run_dir, manifest)
    return manifest
