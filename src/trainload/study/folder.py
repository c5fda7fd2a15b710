"""A study's folder: its copy of the file, its cells, the stop mark, and who holds it."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trainload import record
from trainload.errors import RecordError, StudyError
from trainload.files import replacing, write_whole
from trainload.record import DirectoryLock
from trainload.record.inside import LARGEST_LINES_BYTES, open_inside, read_inside, split_lines
from trainload.record.lines import parse_line
from trainload.study.cells import Cell
from trainload.study.file import StudyFile, parse_study
from trainload.study.located import MOST_BYTES
from trainload_worker.protocol.checked import CheckError, build_checked

STUDY = "study.yaml"
CELLS = "cells.jsonl"
STOP = "stop"
LOOKING_S = 0.5
"""For how long somebody who only looks may be in the way."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownCell:
    """A cell as the folder keeps it: enough to tell how far the study is."""

    identity: str
    title: str
    seconds: float | None
    """What one run of it was estimated to take."""


@dataclass(frozen=True, kw_only=True)
class _CellLine:
    """A cell as it is written."""

    identity: str
    factors: dict[str, Any]
    title: str
    seconds: float | None

    def cell(self) -> KnownCell:
        identity = sys.intern(self.identity)
        return KnownCell(identity=identity, title=self.title, seconds=self.seconds)


def save_plan(folder: Path, study: StudyFile, cells: Iterable[tuple[Cell, float | None]]) -> None:
    """Leave the study and its cells in its folder; RecordError where that is refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / STUDY, copy_text(study).encode("utf-8"))
        with replacing(folder / CELLS) as file:
            for cell, seconds in cells:
                line = {
                    "identity": cell.identity,
                    "factors": cell.factors,
                    "title": cell.title,
                    "seconds": seconds,
                }
                file.write(json.dumps(line).encode("utf-8") + b"\n")
        (folder / STOP).unlink(missing_ok=True)
    except OSError as error:
        raise RecordError(f"cannot write into {folder}: {error.strerror}") from error


def copy_text(study: StudyFile) -> str:
    """The file as it was read; written out where words, --quick or XML changed it."""
    plain = not study.words and not study.quick and not study.source.place.endswith(".xml")
    if plain:
        return study.text
    values = {name: value for name, value in study.source.value.items() if name != "quick"}
    said = [f"# From {study.source.place}", *(["--quick"] if study.quick else []), *study.words]
    body = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    return " ".join(said).replace("\n", " ") + "\n" + str(body)


def load_folder(folder: Path) -> tuple[StudyFile, list[KnownCell]]:
    """The study of a folder and its cells; StudyError where it is none."""
    if not (folder / STUDY).is_file() or not (folder / CELLS).is_file():
        raise StudyError(f"{folder} is no folder of a study: it has no {STUDY} and {CELLS}")
    study = parse_study(_study_text(folder), str(folder / STUDY))
    return study, [cell for cell, _ in read_cells(folder)]


def _study_text(folder: Path) -> str:
    try:
        return read_inside(folder / STUDY, MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise StudyError(f"cannot read {folder / STUDY}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise StudyError(f"{folder / STUDY} is no UTF-8 text: byte {error.start}") from None


def read_cells(folder: Path) -> Iterator[tuple[KnownCell, dict[str, Any]]]:
    """The cells that a study was planned with, and the levels of each, one after the other.

    RecordError where they are damaged.
    """
    try:
        with open_inside(folder / CELLS, largest_bytes=LARGEST_LINES_BYTES) as file:
            for number, (line, _) in enumerate(split_lines(file), 1):
                if line != b"":
                    value = None if line is None else parse_line(line)
                    told = build_checked(_CellLine, value, f"line {number}")
                    yield told.cell(), told.factors
    except OSError as error:
        raise RecordError(f"cannot read {folder / CELLS}: {error.strerror}") from error
    except CheckError as error:
        raise RecordError(f"{folder / CELLS} is damaged: {error}; run the study again") from None


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the study, so that no other process runs it; freed however this one ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"cannot make {folder}: {error.strerror}") from error
    lock = DirectoryLock(folder)
    try:
        # Whoever asks for the status holds the folder for a moment.
        deadline_s = time.monotonic() + LOOKING_S
        while not lock.try_take():
            if time.monotonic() > deadline_s:
                raise StudyError(
                    f"{folder}: another process runs this study; see trainload study status"
                )
            time.sleep(LOOKING_S / 20)
        yield
    finally:
        lock.free()


def is_held(folder: Path) -> bool:
    """Whether some process runs the study now; several may ask at once."""
    try:
        return record.is_held(folder)
    except RecordError as error:
        raise StudyError(str(error)) from error


def ask_to_stop(folder: Path) -> None:
    """Have whoever runs the study finish the running cell and end."""
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        os.close(os.open(folder / STOP, flags, 0o666))
    except OSError as error:
        raise RecordError(f"cannot write {folder / STOP}: {error.strerror}") from error


def is_asked_to_stop(folder: Path) -> bool:
    """Whether somebody asked."""
    return (folder / STOP).exists()
