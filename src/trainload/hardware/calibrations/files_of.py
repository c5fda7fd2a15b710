"""Calibrations on disk: those that are shipped, and those in the user's folder.

Sole owner of where they stand; their form is `form`'s duty.
"""

import json
import os
from functools import cache
from importlib import resources
from pathlib import Path

from trainload.errors import HardwareFileError
from trainload.files import write_whole
from trainload.hardware.calibrations.form import from_document, to_document
from trainload.hardware.calibrations.types import Calibration
from trainload.hardware.own_files import list_own, own_folder, read_object

_KIND = "calibrations"


def calibrations_folder() -> Path:
    """The user's own: $TRAINLOAD_CALIBRATIONS, or `trainload/calibrations` in the data folder."""
    return own_folder(_KIND)


def load_calibration(path: Path) -> Calibration:
    """The calibration in a file from anyone; HardwareFileError where it holds none."""
    return from_document(read_object(path), str(path))


def load_calibrations() -> dict[str, Calibration]:
    """Every calibration by its device: the user's latest of each before the shipped one.

    HardwareFileError names a file in the user's folder that is none.
    """
    own: dict[str, Calibration] = {}
    for path in list_own(_KIND, ".json"):
        found = load_calibration(path)
        if found.device not in own or own[found.device].taken_at <= found.taken_at:
            own[found.device] = found
    return {**_shipped(), **own}


def find_calibration(device: str) -> Calibration | None:
    """The calibration of the device with that key of the catalogue; None where there is none."""
    return load_calibrations().get(device)


def save_calibration(calibration: Calibration, path: Path | None = None) -> Path:
    """Write it whole, into the user's folder by default; where it stands.

    HardwareFileError where the disk refuses.
    """
    path = path or calibrations_folder() / f"{calibration.device}.json"
    document = to_document(calibration)
    from_document(document, str(path))  # nothing is written that could not be read again
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, render_document(document).encode("ascii"))
    except OSError as error:
        raise HardwareFileError(f"cannot write {path}: {error.strerror}") from error
    return path


def check_place(path: Path | None = None) -> None:
    """HardwareFileError where a calibration could not be saved there; makes its folder."""
    folder = calibrations_folder() if path is None else path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HardwareFileError(f"cannot write into {folder}: {error.strerror}") from None
    if not os.access(folder, os.W_OK) or (path is not None and path.is_dir()):
        raise HardwareFileError(f"cannot write {path or folder}; name another file: --out FILE")


def render_document(document: dict[str, object]) -> str:
    """The document as JSON with a line for each of its parts."""
    lines = []
    for name, value in document.items():
        if name == "points":
            assert isinstance(value, list)
            rows = ",\n  ".join(json.dumps(one, separators=(",", ":")) for one in value)
            lines.append(f' "points": [\n  {rows}\n ]')
        else:
            lines.append(f' "{name}": {json.dumps(value, allow_nan=False)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


@cache
def _shipped() -> dict[str, Calibration]:
    folder = resources.files("trainload.hardware.calibrations") / "files"
    found: dict[str, Calibration] = {}
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".json"):
            one = from_document(json.loads(file.read_text(encoding="utf-8")), file.name)
            assert file.name == f"{one.device}.json", file.name
            found[one.device] = one
    return found
