"""What was estimated of a workload: its document, kept until the run and copied into its directory.

    keep_estimate(identity: str, estimate: RecordedEstimate) -> Path

is for whoever estimates: `identity` from `trainload.workload.identity.workload_identity`. A later
estimate of the same workload replaces the earlier. Files and their schema: nothing is computed
here.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from trainload.errors import RecordError, RecordTooNew
from trainload.files import write_whole
from trainload.record.inside import parse_json, read_inside
from trainload.record.layout import ESTIMATE
from trainload_worker.protocol.checked import (
    Bounds,
    CheckError,
    not_written,
    read_leniently,
    to_json,
)

FOLDER_VARIABLE = "TRAINLOAD_ESTIMATES"
ESTIMATE_FORMAT = 1
CARD_KIND = "memory_scorecard"
CARD_FORMAT = 1

T = TypeVar("T")
Bytes = Annotated[int, Bounds(low=0, high=2**62)]
Part = Mapping[str, Any]
"""Kept for people and their programs; nothing here reads what is in it."""


@dataclass(frozen=True, kw_only=True)
class RecordedFigures:
    """The memory of a step at one end of its range; None where nothing was traced."""

    allocated_bytes: Bytes | None = None
    reserved_bytes: Bytes | None = None
    device_bytes: Bytes | None = None
    needed_bytes: Bytes | None = None
    ram_growth_bytes: Bytes | None = None
    fits: bool | None = None
    """None as well where it is too close to call."""


@dataclass(frozen=True, kw_only=True)
class RecordedMemory(RecordedFigures):
    """What was said of the memory of a step: the figures, their ends, the verdict and why."""

    low: RecordedFigures | None = None
    high: RecordedFigures | None = None
    capacity_bytes: Bytes | None = None
    verdict: str | None = None
    """fits, does not fit, too close to call, not known."""
    running_out_probability: float | None = None
    least_probability: float | None = None
    """Up to which a step is said to fit."""
    target: str | None = None
    peak: Part | None = None
    curve: tuple[Part, ...] = ()
    room: Part | None = None
    missing: str | None = None
    """Why there is no estimate."""
    notes: tuple[str, ...] = ()
    what_would_help: tuple[Part, ...] = ()
    largest_batch: Part | None = None
    measured: Part | None = None


@dataclass(frozen=True, kw_only=True)
class RecordedOptimizer:
    """The update rule that was estimated."""

    name: str | None = None
    momentum: float | None = None


@dataclass(frozen=True, kw_only=True)
class RecordedEstimate:
    """`estimate.json`, and what `trainload estimate --json` prints."""

    format: int = ESTIMATE_FORMAT
    """Documents of before it was written have the first one."""
    origin: str = "estimate"
    model: str | None = None
    batch_size: int | None = None
    """As precision and optimizer None for a script, which brings its own."""
    precision: str | None = None
    optimizer: RecordedOptimizer | None = None
    device: Part | None = None
    """As its entry in the catalogue says."""
    memory: RecordedMemory | None = None
    memory_bound: Part | None = None
    time: Part | None = None
    totals: Part | None = None
    study_r: Part | None = None
    layers: tuple[Part, ...] = ()
    wrong: tuple[str, ...] = not_written(tuple)
    """Values that did not fit and were passed over when it was read, a line each."""

    @property
    def device_name(self) -> str | None:
        """Of the catalogue; None where no device was named."""
        name = (self.device or {}).get("name")
        return name if isinstance(name, str) else None

    def to_json(self) -> dict[str, Any]:
        """The document."""
        document: dict[str, Any] = to_json(self)
        return document


@dataclass(frozen=True, kw_only=True)
class CardFigures:
    """Bytes by quantity; None where there is none."""

    allocated: Bytes | None = None
    reserved: Bytes | None = None
    device: Bytes | None = None
    ram: Bytes | None = None


@dataclass(frozen=True, kw_only=True)
class CardRow:
    """One case: what was estimated, and what was then measured."""

    name: str
    device: str
    model_kind: str
    estimate: CardFigures = CardFigures()
    truth: CardFigures = CardFigures()


@dataclass(frozen=True, kw_only=True)
class CardVerdict:
    """What was said about a capacity, and what happened there."""

    name: str
    device: str
    verdict: str
    outcome: str
    capacity_bytes: Bytes | None = None


@dataclass(frozen=True, kw_only=True)
class RecordedCard:
    """Estimates beside truths, as `bench/memory_scorecard.py` writes them."""

    rows: tuple[CardRow, ...] = ()
    verdicts: tuple[CardVerdict, ...] = ()
    wrong: tuple[str, ...] = not_written(tuple)
    """Rows and values that did not fit and were passed over, a line each."""


def estimates_folder() -> Path:
    """$TRAINLOAD_ESTIMATES, or `trainload/estimates` in the user's data folder."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named).expanduser()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "trainload" / "estimates"


def keep_estimate(identity: str, estimate: RecordedEstimate) -> Path:
    """Keep an estimate for the day its workload is run; RecordError where the disk refuses."""
    return keep_document(identity, estimate.to_json())


def keep_document(identity: str, document: Mapping[str, Any]) -> Path:
    """Keep what was said of a workload under its identity; RecordError where the disk refuses."""
    path = estimates_folder() / f"{identity}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(document, ensure_ascii=False, allow_nan=False)
        write_whole(path, text.encode("utf-8"))
    except OSError as error:
        raise RecordError(f"cannot keep the estimate in {path}: {error.strerror}") from error
    return path


def copy_estimate(run_dir: Path, identities: Sequence[str]) -> bool:
    """Copy the first of these estimates that was kept into a run directory; False without one."""
    return copy_document(run_dir / ESTIMATE, identities)


def copy_document(place: Path, identities: Sequence[str]) -> bool:
    """Copy the first that was kept under one of these identities; False without one.

    A file that cannot be read or written is as none: a run does not fail for it.
    """
    for identity in identities:
        path = estimates_folder() / f"{identity}.json"
        try:
            write_whole(place, read_inside(path))
        except (OSError, RuntimeError):  # RuntimeError: no home folder is known
            continue
        return True
    return False


def load_estimate(run_dir: Path) -> RecordedEstimate | None:
    """The estimate of a run; None where it has none, RecordError where it is damaged."""
    wrong: list[str] = []
    found = read_copied(RecordedEstimate, run_dir / ESTIMATE, ESTIMATE_FORMAT, wrong)
    return None if found is None else replace(found, wrong=tuple(wrong))


def read_copied(cls: type[T], path: Path, newest: int, wrong: list[str]) -> T | None:
    """A document that was copied into a run; None where there is none, RecordError if damaged."""
    if not os.path.lexists(path):
        return None
    document = load_document(path)
    found = read_document(cls, document, wrong, path)
    number = getattr(found, "format", 0)
    if number > newest:
        raise RecordTooNew(f"{path} has format {number}, this trainload reads {newest}")
    return found


def load_scorecard(path: Path) -> RecordedCard:
    """A file with estimates beside truths; a row that lacks something is passed over."""
    document = load_document(path)
    if document.get("kind") != CARD_KIND:
        raise RecordError(f"{path} holds no estimates beside truths; give a {CARD_KIND} file")
    if document.get("format") != CARD_FORMAT:
        raise RecordError(
            f"{path} has format {document.get('format')!r}, this trainload reads {CARD_FORMAT}"
        )
    wrong: list[str] = []
    return replace(read_document(RecordedCard, document, wrong, path), wrong=tuple(wrong))


def read_document(cls: type[T], document: Any, wrong: list[str], path: Path) -> T:
    """A document as its type, what did not fit in `wrong`; RecordError where it is damaged."""
    try:
        return read_leniently(cls, document, wrong)
    except CheckError as error:
        raise RecordError(f"{path} is damaged: {error}") from None


def load_document(path: Path) -> dict[str, Any]:
    """The JSON object in a file; RecordError where there is none."""
    try:
        document = parse_json(read_inside(path).decode("utf-8"), parse_constant=lambda _: None)
    except FileNotFoundError:
        raise RecordError(f"no such file: {path}") from None
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise RecordError(f"{path} is damaged: {error}") from None
    if not isinstance(document, dict):
        raise RecordError(f"{path} is damaged: not a JSON object")
    return document
