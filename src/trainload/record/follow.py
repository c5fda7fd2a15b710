"""Following a run while it goes on: what was appended to its files since the last look.

Only reads, in pieces of a stated size: a run directory may come from a stranger. Asks for no lock
while lines come, closes and seals nothing, and keeps nothing of what it gave.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trainload.errors import RecordError
from trainload.record.directory import is_held
from trainload.record.layout import EVENTS, MANIFEST, SAMPLES
from trainload.record.lines import EventReader, LineReader, is_number
from trainload.record.manifest import Manifest, load_manifest
from trainload.record.tables import SAMPLE_HEAD, is_header
from trainload_worker.protocol.events import Event

PIECE_BYTES = 4 << 20
"""Read of each file in one look, at most; a longer line counts as damaged."""
QUIET_S = 3.0
"""Without a new line for so long, it is asked whether anybody still holds the directory."""
MOST_COLUMNS = 4096

Standing = Literal["running", "ended", "abandoned"]
"""abandoned: no outcome, and no process holds the directory."""


@dataclass(frozen=True, kw_only=True)
class SampleRows:
    """Samples under one header; a row is as long as the columns, of sound numbers or None."""

    columns: tuple[str, ...]
    rows: list[list[Any]]


@dataclass(frozen=True, kw_only=True)
class Look:
    """What one look found."""

    manifest: Manifest
    standing: Standing
    events: tuple[Event, ...]
    samples: tuple[SampleRows, ...]
    """In order; more than one where a sampler took over."""
    more: bool
    """Whether more is there already: look again at once."""
    notes: tuple[str, ...]
    """What could not be read, a line each."""


class RunFollower:
    """Looks at one run directory again and again; RecordError at first where it is none."""

    def __init__(self, run_dir: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = run_dir
        self._clock = clock
        self._manifest = load_manifest(run_dir)
        self._stamp = self._manifest_stamp()
        self._events = EventReader(lines=LineReader(path=run_dir / EVENTS))
        self._samples = LineReader(path=run_dir / SAMPLES)
        self._columns: tuple[str, ...] = ()
        self._heard_s = float("-inf")
        self._closed: dict[str, str] = {}

    @property
    def damaged_lines(self) -> int:
        """Lines so far that were torn, too long or not sound."""
        return self._events.damaged_lines + self._samples.damaged_lines

    def look(self) -> Look:
        """What is new since the last look; what cannot be read becomes a note, once and for all."""
        self._take_manifest()
        events, more_events = self._read(EVENTS, self._events.read_some)
        values, more_samples = self._read(SAMPLES, self._samples.read_some)
        if events or values:
            self._heard_s = self._clock()
        return Look(
            manifest=self._manifest,
            standing=self._standing(),
            events=tuple(events),
            samples=tuple(self._sound(values)),
            more=more_events or more_samples,
            notes=tuple(self._closed.values()),
        )

    def _sound(self, values: list[Any]) -> list[SampleRows]:
        """The rows of a piece under their headers; the last header counts for the next piece."""
        found = [SampleRows(columns=self._columns, rows=[])]
        for value in values:
            if isinstance(value, dict):
                if is_header(value) and len(value["columns"]) <= MOST_COLUMNS:
                    self._columns = tuple(value["columns"])
                    found.append(SampleRows(columns=self._columns, rows=[]))
            elif _is_row(value, len(self._columns)):
                found[-1].rows.append(value)
            else:
                self._samples.damaged_lines += 1
        return [one for one in found if one.rows]

    def _standing(self) -> Standing:
        if self._manifest.outcome is not None:
            return "ended"
        if self._clock() - self._heard_s < QUIET_S:
            return "running"
        try:
            return "running" if is_held(self.path) else "abandoned"
        except RecordError:
            return "abandoned"

    def _take_manifest(self) -> None:
        stamp = self._manifest_stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._manifest = load_manifest(self.path)
            self._closed.pop(MANIFEST, None)
        except RecordError as error:
            self._closed[MANIFEST] = str(error)

    def _manifest_stamp(self) -> tuple[int, int, int] | None:
        try:
            found = (self.path / MANIFEST).lstat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read(
        self, name: str, read_some: Callable[[int], tuple[list[Any], bool]]
    ) -> tuple[list[Any], bool]:
        if name in self._closed:
            return [], False
        try:
            return read_some(PIECE_BYTES)
        except RecordError as error:
            self._closed[name] = str(error)
            return [], False


def _is_row(value: Any, length: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) == length >= len(SAMPLE_HEAD)
        and is_number(value[1])
        and all(one is None or is_number(one) for one in value)
    )
