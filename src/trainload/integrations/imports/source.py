"""Files from elsewhere, opened once and within bounds; knows no kind of file."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from trainload.errors import UsageError
from trainload.record.inside import open_inside

MOST_BYTES = 256 << 20
MOST_COLUMNS = 1024
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Table:
    """A CSV file: its columns, and its rows as they are read."""

    path: Path
    columns: tuple[str, ...]
    rows: Iterator[tuple[int, dict[str, str]]]
    """Number of the line, and the cells that are not empty."""


def open_source(path: Path, most_bytes: int = MOST_BYTES) -> BinaryIO:
    """A plain file that the user named, be it by a link; UsageError where it cannot be read."""
    try:
        return open_inside(path.resolve(), largest_bytes=most_bytes)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "it cannot be reached"
        raise UsageError(f"cannot import {path}: {reason}") from error


def digest_of(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    with open_source(path) as file:
        try:
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
        except OSError as error:
            raise UsageError(f"cannot import {path}: {error.strerror}") from error
    return digest.hexdigest()


def read_table(path: Path) -> Table:
    """A CSV file with a line of column names; UsageError where it is none."""
    rows = _lines(path)
    header = next(rows, None)
    if header is None:
        raise UsageError(f"{path} is empty; give a CSV file with a line of column names")
    columns = tuple(name.strip() for name in header[1])
    wrong = next((name for name in columns if columns.count(name) > 1), None)
    if len(columns) > MOST_COLUMNS:
        raise UsageError(f"{path} has {len(columns):,} columns; at most {MOST_COLUMNS:,} are read")
    if wrong is not None:
        raise UsageError(f"{path}: the column {wrong[:60]!r} stands there twice; rename one")
    return Table(path=path, columns=columns, rows=_cells(path, columns, rows))


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    with open_source(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="")
        reader = csv.reader(text, skipinitialspace=True)
        try:
            for row in reader:
                if any(cell.strip() for cell in row):
                    yield reader.line_num, row
        except csv.Error as error:
            raise UsageError(f"{path}:{reader.line_num}: no CSV: {error}") from None


def _cells(
    path: Path, columns: tuple[str, ...], rows: Iterator[tuple[int, list[str]]]
) -> Iterator[tuple[int, dict[str, str]]]:
    for line, row in rows:
        if len(row) > len(columns):
            raise UsageError(f"{path}:{line}: {len(row)} cells under {len(columns)} column names")
        pairs = zip(columns, (cell.strip() for cell in row), strict=False)
        yield line, {name: cell for name, cell in pairs if cell}
