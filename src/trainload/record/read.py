"""Reading a run: its manifest and its tables, sealed or not.

Opening closes a run whose driver is gone and seals it where the folder may be written.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from trainload.errors import RecordError
from trainload.record import layout
from trainload.record.directory import DirectoryLock, abandoned_manifest
from trainload.record.inside import is_plain, read_end
from trainload.record.layout import (
    EPOCHS_TABLE,
    EVENTS,
    SAMPLES,
    SAMPLES_TABLE,
    STEPS_TABLE,
    WORKER_LOG,
)
from trainload.record.manifest import Manifest, load_manifest
from trainload.record.seal import is_sealed, seal_if_free
from trainload.record.sound import Sound, read_table, sound_epochs, sound_samples, sound_steps
from trainload.record.tables import sample_table, step_tables

if TYPE_CHECKING:
    import polars as pl


MOST_BEFORE = 1000
"""Runs that are followed back from one that continues others."""


@dataclass(frozen=True)
class Run:
    """One run as read back; times in tables are seconds since its start."""

    path: Path
    manifest: Manifest

    @property
    def running(self) -> bool:
        """Whether the run still goes on."""
        return self.manifest.outcome is None

    @property
    def _sealed(self) -> bool:
        """Sealed by now, if not when the manifest was read: another reader may have done it."""
        return is_sealed(self.path, self.manifest) or is_sealed(self.path, load_manifest(self.path))

    @cached_property
    def steps(self) -> pl.DataFrame:
        """step, epoch, start_s, end_s, step_s, loss, examples, tokens; what is not known is null.

        A loss that was not finite is null too.
        """
        return self._steps[0]

    def steps_of(self, rank: int) -> pl.DataFrame:
        """The steps of one process, as `steps`, which are those of rank 0.

        None at all for a process that ended before its first word; RecordError for a rank that
        the run did not have.
        """
        if rank == 0:
            return self.steps
        count = self.manifest.processes or 1
        if not 0 < rank < count:
            raise RecordError(f"{self.path} has no rank {rank}; it ran in {count} process(es)")
        name = layout.steps_table(rank)
        if self._sealed and os.path.lexists(self.path / name):
            return sound_steps(read_table(self.path / name), name)[0]
        name = layout.events_file(rank)
        return sound_steps(step_tables(self.path / name, self.manifest.origin_s)[0], name)[0]

    @cached_property
    def epochs(self) -> pl.DataFrame:
        """epoch, start_s, end_s, train_s, validation_s, steps, train_loss, validation_…."""
        return self._epochs[0]

    @cached_property
    def samples(self) -> pl.DataFrame:
        """tick, t_s, read_s, sampler_cpu_s and one column for each metered quantity."""
        return self._samples[0]

    def samples_of(self, columns: Sequence[str]) -> pl.DataFrame:
        """As `samples`, but `t_s` and those of these columns that it has: read alone, so sooner."""
        if not self._sealed or "_samples" in self.__dict__:
            found = self.samples
            return found.select("t_s", *(c for c in columns if c in found.columns))
        path = self.path / SAMPLES_TABLE
        found = read_table(path, ["t_s", *columns], absent=True)
        return sound_samples(found, SAMPLES_TABLE, head=("t_s",))[0]

    @property
    def table_notes(self) -> tuple[str, ...]:
        """What was not sound in the tables and is left out, a line each."""
        found = (*self._steps[1], *self._epochs[1], *self._samples[1], *self._odd_traces)
        return tuple(dict.fromkeys(found))

    @cached_property
    def _steps(self) -> Sound:
        if self._sealed:
            return sound_steps(read_table(self.path / STEPS_TABLE), STEPS_TABLE)
        return sound_steps(self._events[0], EVENTS)

    @cached_property
    def _epochs(self) -> Sound:
        if self._sealed:
            return sound_epochs(read_table(self.path / EPOCHS_TABLE), EPOCHS_TABLE)
        return sound_epochs(self._events[1], EVENTS)

    @cached_property
    def _samples(self) -> Sound:
        if self._sealed:
            return sound_samples(read_table(self.path / SAMPLES_TABLE), SAMPLES_TABLE)
        found = sample_table(self.path / SAMPLES, self.manifest.origin_s)[0]
        return sound_samples(found, SAMPLES)

    @cached_property
    def _events(self) -> tuple[pl.DataFrame, pl.DataFrame, int]:
        return step_tables(self.path / EVENTS, self.manifest.origin_s)

    @cached_property
    def before(self) -> tuple[Run, ...]:
        """The runs that this one continues, the latest first, as far as they lie beside it.

        They are looked for by their names alone: what a record says of paths is not obeyed.
        """
        found: list[Run] = []
        seen, run = {self.path.name}, self
        while len(seen) <= MOST_BEFORE:
            origin = run.manifest.continues
            name = None if origin is None else origin.run_id
            if name is None or name in seen or Path(name).name != name:
                break
            seen.add(name)
            try:
                run = open_run(self.path.resolve().parent / name, seal=False)
            except RecordError:
                break
            found.append(run)
        return tuple(found)

    @property
    def traces(self) -> dict[int, Path]:
        """The sealed trace of each process that was traced, by rank; what is no file is none."""
        found = [(layout.rank_of(p.name), p) for p in self.path.glob(layout.TRACE_GLOB)]
        return dict(sorted((rank, p) for rank, p in found if rank is not None and is_plain(p)))

    @property
    def _odd_traces(self) -> tuple[str, ...]:
        odd = sorted(p.name for p in self.path.glob(layout.TRACE_GLOB) if not is_plain(p))
        return tuple(f"{name} is a link or no plain file; it is not opened" for name in odd[:5])

    def worker_log_tail(self, lines: int = 40) -> str:
        """The last lines the training process printed; unreadable bytes are replaced."""
        try:
            data, _ = read_end(self.path / WORKER_LOG, 65536)
        except OSError:
            return ""
        return "\n".join(data.decode("utf-8", "replace").splitlines()[-lines:])


def open_run(path: Path, *, seal: bool = True) -> Run:
    """Read a run directory; RecordError where it is none.

    A run that ended is sealed first, unless the folder may not be written or `seal` is False.
    """
    manifest = load_manifest(path)
    if is_sealed(path, manifest):
        return Run(path, manifest)
    if not seal or not os.access(path, os.W_OK):
        return Run(path, _ended_manifest(path, manifest))
    # Held by its driver, it runs; held by another reader, it will have been sealed when next read.
    return Run(path, seal_if_free(path) or load_manifest(path))


def _ended_manifest(path: Path, manifest: Manifest) -> Manifest:
    """The manifest as it is, or as it must be where the driver is gone; nothing is written."""
    if manifest.outcome is not None:
        return manifest
    lock = DirectoryLock(path)
    try:
        return abandoned_manifest(path, manifest) if lock.try_take() else manifest
    finally:
        lock.free()
