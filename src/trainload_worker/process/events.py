"""Writes `events.jsonl`, one line a call; never stops the training when the disk does."""

from __future__ import annotations

import json
import math
import os
import platform
from time import monotonic
from time import time as wall_time
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from trainload_worker.protocol.checked import to_json
from trainload_worker.protocol.events import (
    Event,
    Hello,
    Obtained,
    ObtainedAccelerator,
    SettingTaken,
    event_fields,
)

if TYPE_CHECKING:
    from trainload_worker.frameworks.backends import Opened


# Taken before a user's program may put functions of its own in their place.
_close, _fstat, _getpid, _open, _write = os.close, os.fstat, os.getpid, os.open, os.write


class EventWriter:
    """Appends events as JSON lines and counts those it could not write; never raises.

    Each line goes out in one `os.write`, so a reader sees whole lines even after a crash. A line
    that the disk took only in part is ended by a newline before the next one: a reader loses
    that line alone, and must skip what is not JSON. The program around may close the descriptor, or
    have a file of its own under its number: that is seen before each line, and the events' file
    is opened anew.
    """

    def __init__(self, path: str) -> None:
        """Opens `path` for appending; OSError when that is impossible."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._path = os.path.abspath(path)
        self._descriptor = _open(self._path, flags, 0o644)
        self._file = _identity(self._descriptor)
        self._pid = _getpid()
        self._torn = False
        self._closed = False
        self.lost_count = 0

    def write(self, event: Event) -> bool:
        """Writes one event; False when it was lost. NaN and infinities become null.

        Nothing in a process forked from this one: what it does is not the run's to tell.
        """
        if _getpid() != self._pid:
            return True
        try:
            return self._write_line(_to_line(event))
        except Exception:  # noqa: BLE001 - a program that broke json itself still goes on
            self.lost_count += 1
            return False

    def mend(self) -> None:
        """Looks whether another writer left its last line torn, so that the next one stands alone.

        Only for a file that nobody else writes to any more.
        """
        try:
            with open(self._path, "rb") as file:
                if file.seek(0, os.SEEK_END) > 0:
                    file.seek(-1, os.SEEK_END)
                    self._torn = file.read(1) != b"\n"
        except OSError:
            pass  # the next line then stands or falls with the torn one

    def _write_line(self, line: bytes) -> bool:
        repair = b"\n" if self._torn else b""
        whole = repair + line
        try:
            written = _write(self._own_descriptor(), whole)
        except OSError:
            written = 0
        if written == len(whole):
            self._torn = False
            return True
        if written:
            self._torn = written > len(repair)
        self.lost_count += 1
        return False

    def close(self) -> None:
        """Closes the file; a disk that complains only now has already been counted."""
        # Whoever writes later must not meet another file under the same number.
        descriptor, self._descriptor, self._closed = self._descriptor, -1, True
        try:
            if _identity(descriptor) == self._file:
                _close(descriptor)
        except OSError:
            pass

    def _own_descriptor(self) -> int:
        """The events' descriptor, opened anew where it is not ours any more; OSError if gone."""
        try:
            if self._closed or _identity(self._descriptor) == self._file:
                return self._descriptor
        except OSError:
            pass  # it was closed
        descriptor = _open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        if _identity(descriptor) != self._file:
            _close(descriptor)
            raise OSError("another file has the place of the events")
        self._descriptor = descriptor
        return descriptor


def greet(events: EventWriter, framework: str, opened: Opened, notes: Sequence[str]) -> None:
    """Writes the first words of a run: clocks, versions, and what became of the setting."""
    events.write(
        Hello(
            t_s=monotonic(),
            wall_s=wall_time(),
            pid=os.getpid(),
            python=platform.python_version(),
            framework=framework,
            framework_version=opened.version,
            software=dict(opened.software),
        )
    )
    found = opened.accelerators
    obtained = Obtained(
        cores=read_cores(),
        threads=opened.threads,
        device=opened.device,
        accelerators=None if found is None else tuple(_accelerator(one) for one in found),
        notes=(*notes, *opened.notes),
    )
    events.write(SettingTaken(obtained))


def _accelerator(found: Mapping[str, str | None]) -> ObtainedAccelerator:
    return ObtainedAccelerator(name=found.get("name"), uuid=found.get("uuid"))


def read_cores() -> tuple[int, ...] | None:
    """The cores this process may use; None where the system does not tell."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    return tuple(sorted(os.sched_getaffinity(0)))


_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=to_json).encode


def _to_line(event: Event) -> bytes:
    content = event_fields(event)
    try:
        text = _encode(content)
    except ValueError:
        text = _encode(finite_or_null(to_json(content)))
    return text.encode("ascii") + b"\n"


def _identity(descriptor: int) -> tuple[int, int]:
    """Which file a descriptor means; OSError where it means none."""
    found = _fstat(descriptor)
    return found.st_dev, found.st_ino


def finite_or_null(value: Any) -> Any:
    """The same JSON value with None in place of every NaN and infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite_or_null(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite_or_null(item) for item in value]
    return value
