"""Data files about hardware: those that are shipped and those in the user's own folders.

Any may come from a stranger: plain files of a stated size only, one line where one is wrong.
Knows no file's meaning.
"""

import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainload.errors import HardwareFileError

LARGEST_BYTES = 4 << 20
LONGEST_TEXT = 2000

_KEY = re.compile(r"[a-z0-9][a-z0-9+._-]{0,99}")

_DATE = re.compile(r"(19|20)\d\d(-(0[1-9]|1[0-2])(-([0-2]\d|3[01]))?)?")


def own_folder(kind: str) -> Path:
    """$TRAINLOAD_KIND, or `trainload/kind` in the user's data folder; it need not exist."""
    named = os.environ.get(f"TRAINLOAD_{kind.upper()}")
    if named:
        return Path(named).expanduser()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "trainload" / kind


def list_own(kind: str, ending: str) -> tuple[Path, ...]:
    """The files of that ending in the user's folder, by name; empty where there is none."""
    try:
        folder = own_folder(kind)
        return tuple(sorted(path for path in folder.iterdir() if path.name.endswith(ending)))
    except (FileNotFoundError, RuntimeError):  # RuntimeError: no home folder is known
        return ()
    except OSError as error:
        raise HardwareFileError(f"cannot read {folder}: {error.strerror}") from None


def read_text(path: Path) -> str:
    """A whole text file; HardwareFileError where it is no plain, readable file of fitting size."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise HardwareFileError(f"{path} is no plain file")
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise HardwareFileError(f"cannot read {path}: {error.strerror or error}") from None
    if len(data) > LARGEST_BYTES:
        raise HardwareFileError(f"{path} has more than {LARGEST_BYTES:,} bytes; it is not read")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise HardwareFileError(f"{path} is no text in UTF-8") from None


def read_object(path: Path) -> Mapping[str, Any]:
    """The JSON object in a file; HardwareFileError where it holds none."""
    try:
        document = json.loads(read_text(path), parse_int=_whole)
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else error
        raise HardwareFileError(f"{path} is no JSON: {reason}") from None
    if not isinstance(document, dict):
        raise HardwareFileError(f"{path} holds no JSON object")
    return document


def check_key(text: str, where: str) -> str:
    """A device's key, which is also a file's name; HardwareFileError where it cannot be one."""
    if not _KEY.fullmatch(text):
        raise HardwareFileError(f"{where}: {text[:60]!r} is no key of a device, such as rtx-3090")
    return text


def check_words(text: str, where: str) -> str:
    """A text that may be shown on a terminal; HardwareFileError where it may not."""
    if len(text) > LONGEST_TEXT or not text.isprintable():
        raise HardwareFileError(
            f"{where}: must be one line of at most {LONGEST_TEXT:,} printable characters"
        )
    return text


def check_dated(text: str, where: str) -> str:
    """A year, month or day in ISO form; HardwareFileError where it is none."""
    if not _DATE.fullmatch(text):
        raise HardwareFileError(f"{where}: {text[:40]!r} is no date such as 2025-03")
    return text


def _whole(text: str) -> int:
    if len(text) > 30:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)
