"""What a machine was measured to reach, as a file: this machine's own, or one from elsewhere.

Sole owner of the file's form and place. A file may come from a stranger and is checked; nothing
here measures or judges.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trainload.errors import HardwareFileError
from trainload.files import write_whole
from trainload.hardware.inventory import Machine
from trainload.hardware.naming import device_key
from trainload.hardware.own_files import check_words, own_folder, read_object
from trainload_worker.protocol.checked import CheckError, build_checked, to_json
from trainload_worker.protocol.measure import Measured, MeasureLack

KIND = "trainload limits"
FORMAT: Literal[1] = 1
_FOLDER = "limits"
_MOST_VALUES = 100_000


@dataclass(frozen=True, kw_only=True)
class MachineLimits:
    """Figures of one machine, each with every sample that was taken."""

    taken_at: str
    quick: bool
    facts: Mapping[str, str]
    """What the system says of itself: processor, caches, drives; in words."""
    measured: tuple[Measured, ...]
    lacks: tuple[MeasureLack, ...] = ()
    software: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What may have spoilt figures, such as others' load."""
    kind: Literal["trainload limits"] = "trainload limits"
    format: Literal[1] = 1

    def find(self, program: str) -> Measured | None:
        """What a program found; None where it did not run or could not measure."""
        return next((one for one in self.measured if one.program == program), None)

    def why_missing(self, program: str) -> str:
        """Why a program has no figures, in words."""
        reasons = (one.reason for one in self.lacks if one.program == program)
        return next(reasons, f"{program} was not measured")


def limits_path(machine: Machine) -> Path:
    """Where the figures of such a machine are kept: by processor, number of cores and first GPU.

    In $TRAINLOAD_LIMITS, or `trainload/limits` of the user's data folder.
    """
    parts = [device_key(machine.cpu_model or machine.architecture or "cpu")]
    parts.append(f"{len(machine.allowed_cores)}-cores")
    if machine.accelerators:
        parts.append(device_key(machine.accelerators[0].name))
    return own_folder(_FOLDER) / f"{'-'.join(parts)}.json"


def find_limits(machine: Machine) -> MachineLimits | None:
    """What is kept of such a machine; None where it was never measured."""
    path = limits_path(machine)
    return load_limits(path) if path.exists() else None


def load_limits(path: Path) -> MachineLimits:
    """The figures in a file from anyone; HardwareFileError where it holds none."""
    document, where = read_object(path), str(path)
    if document.get("kind") != KIND:
        raise HardwareFileError(
            f"{where} holds no figures of a machine; trainload detect --measure makes such a file"
        )
    if document.get("format") != FORMAT:
        raise HardwareFileError(
            f"{where} has format {document.get('format')!r:.20}, this trainload reads {FORMAT}"
        )
    try:
        found = build_checked(MachineLimits, document, where)
    except CheckError as error:
        raise HardwareFileError(str(error)) from None
    _check(found, where)
    return found


def save_limits(limits: MachineLimits, path: Path) -> None:
    """Write them whole; HardwareFileError where the disk refuses."""
    text = json.dumps(to_document(limits), indent=1, ensure_ascii=True, allow_nan=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, f"{text}\n".encode("ascii"))
    except OSError as error:
        raise HardwareFileError(f"cannot write {path}: {error.strerror}") from error


def to_document(limits: MachineLimits) -> dict[str, Any]:
    """The file's content."""
    document: dict[str, Any] = to_json(limits)
    return document


def _check(limits: MachineLimits, where: str) -> None:
    texts = [limits.taken_at, *limits.notes]
    for mapping in (limits.facts, limits.software):
        texts += [*mapping, *mapping.values()]
    for lack in limits.lacks:
        texts += [lack.program, lack.reason]
    count = 0
    for one in limits.measured:
        texts += [one.program, one.unit, one.method, *one.notes]
        for reading in one.readings:
            texts += [*reading.at, *reading.at.values()]
            count += len(reading.values)
            if not all(map(math.isfinite, reading.values)):
                raise HardwareFileError(f"{where}: {one.program[:40]!r} has a value that is none")
    if count > _MOST_VALUES:
        raise HardwareFileError(f"{where}: {count:,} values; at most {_MOST_VALUES:,}")
    for text in texts:
        check_words(text, where)
