"""Commands to a run that goes on: small files in its directory, left by a viewer for the driver.

Only a file of a driver's own user, of the exact form below and for this very run, is obeyed; it
names no path and no process. A viewer sends no signal: whoever holds the directory takes the file
away, and that is the answer. Standard library alone.
"""

import json
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trainload.errors import RecordError
from trainload.record.inside import open_inside, parse_json
from trainload_worker.protocol.checked import CheckError, build_checked, to_json
from trainload_worker.protocol.marks import LONGEST_WORDS

Verb = Literal["end", "trace", "mark"]

LARGEST_BYTES = 4096
MOST_AT_ONCE = 16
"""Files looked at in one go; a person presses fewer keys in half a second."""
_NAME = re.compile(r"control-[0-9a-f]{32}\.json")


@dataclass(frozen=True, kw_only=True)
class Command:
    """What a running run is asked: to end well, to trace a window now, to mark a moment."""

    verb: Verb
    run_id: str
    """The run that is meant: a file that strayed into another directory means nothing there."""
    t_s: float | None = None
    """The moment on the monotonic clock; None for that of its taking."""
    words: str = ""


def send_command(run_dir: Path, command: Command) -> Path:
    """Leave a command in a run directory; its file, which is gone once the driver has taken it.

    RecordError where the directory may not be written.
    """
    name = f"control-{secrets.token_hex(16)}.json"
    part, path = run_dir / f".{name}.part", run_dir / name
    text = json.dumps(to_json(command), allow_nan=False).encode("ascii")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(part, flags, 0o600)
        try:
            os.write(descriptor, text)
        finally:
            os.close(descriptor)
        part.rename(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise RecordError(f"cannot command {run_dir}: {error.strerror}") from error
    return path


def withdraw_command(path: Path) -> bool:
    """Take a command back; False where it was taken already."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise RecordError(f"cannot take back {path}: {error.strerror}") from error
    return True


def take_commands(run_dir: Path, run_id: str | None) -> list[Command]:
    """The commands left since the last call, in the order of their moments; their files are gone.

    What is not of this user, no plain file of its own, too large or not of the form counts for
    nothing: never raises, since a training goes on around it.
    """
    try:
        with os.scandir(run_dir) as entries:
            names = [entry.name for entry in entries if _NAME.fullmatch(entry.name)]
    except OSError:
        return []
    found = []
    for name in sorted(names)[:MOST_AT_ONCE]:
        command = _take(run_dir / name)
        if command is not None and command.run_id == run_id:
            found.append(command)
    return sorted(found, key=lambda one: one.t_s or 0.0)


def remove_commands(run_dir: Path) -> None:
    """Clear away what nobody took; what cannot be removed stays and means nothing."""
    for path in run_dir.glob("control-*.json"):
        if _NAME.fullmatch(path.name):
            try:
                path.unlink(missing_ok=True)
            except OSError:
                continue  # a folder of that name, or somebody else's file


def _take(path: Path) -> Command | None:
    try:
        with open_inside(path, largest_bytes=LARGEST_BYTES) as file:
            found = os.fstat(file.fileno())
            if found.st_uid != os.geteuid() or found.st_nlink != 1:
                return None
            data = file.read(LARGEST_BYTES)
        path.unlink()
    except OSError:
        return None
    try:
        command: Command = build_checked(Command, parse_json(data), "a command")
    except (CheckError, ValueError):
        return None
    return command if len(command.words) <= LONGEST_WORDS else None
