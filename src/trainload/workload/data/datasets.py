"""What a workload is trained on: generated keypoints, and tables of the user's own.

Describes and checks data; the rows themselves are drawn or parsed by the worker.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from trainload.checked import suggest
from trainload.errors import WorkloadError
from trainload_worker.protocol.data import CsvData, KeypointData

KEYPOINT_CLASS_COUNTS: Mapping[str, int] = {
    "BL": 10236,
    "FL": 7561,
    "FLAG": 6964,
    "IC": 9791,
    "MAL": 7309,
    "NONE": 23150,
    "OAFL": 6389,
    "OAHS": 7950,
    "PL": 8694,
    "VSIT": 13092,
}
"""Frames per class, 101,136 in all; source: Finocchiaro 2024, table 3.1."""

FLOAT32_MAX = 3.4028234663852886e38
LONGEST_LINE = 16 << 20
"""Characters in one line of a table: a million columns."""


def keypoint_data(frames_fraction: float = 1.0, validation_fraction: float = 0.2) -> KeypointData:
    """The keypoint set, or a share of it with the same class proportions (at least 2 a class)."""
    counts = {
        name: max(2, round(frames * frames_fraction))
        for name, frames in KEYPOINT_CLASS_COUNTS.items()
    }
    return KeypointData(class_counts=counts, validation_fraction=validation_fraction)


def scan_csv(
    path: Path,
    *,
    label_column: str = "label",
    group_column: str | None = None,
    validation_fraction: float = 0.2,
) -> CsvData:
    """Read and check a whole table; WorkloadError names the file, line and column at fault."""
    try:
        check_plain(path)
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(_bounded_lines(file, path))
            return _scan_rows(path, reader, label_column, group_column, validation_fraction)
    except FileNotFoundError:
        raise WorkloadError(f"no such table: {path}") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise WorkloadError(f"cannot read the table {path}: {error}") from error


def check_plain(path: Path) -> None:
    """WorkloadError for a pipe or a device: data is read twice, and a device may have no end."""
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "no plain file"
        raise WorkloadError(f"{path} is {what}; give a file")


def _bounded_lines(file: TextIO, path: Path) -> Iterator[str]:
    """Lines of a table; WorkloadError at one too long, before it is read whole."""
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE and not line.endswith("\n"):
            raise WorkloadError(
                f"{path}: a line of over {LONGEST_LINE:,} characters; it is no table of text"
            )
        yield line


def _scan_rows(
    path: Path,
    reader: Any,
    label_column: str,
    group_column: str | None,
    validation_fraction: float,
) -> CsvData:
    header = next(reader, None)
    if not header:
        raise WorkloadError(f"the table {path} is empty; its first line must name the columns")
    positions = {name: at for at, name in enumerate(header)}
    if len(positions) < len(header):
        twice = min(name for name, count in Counter(header).items() if count > 1)
        raise WorkloadError(f"{path}: column {twice!r} is named twice in the first line")
    if label_column == group_column:
        raise WorkloadError(
            f"{label_column!r} cannot be both the label and the group: "
            "a split by class would leave classes out of training"
        )
    for asked in filter(None, (label_column, group_column)):
        if asked not in positions:
            raise WorkloadError(f"{path}: no column {asked!r}{suggest(asked, header)}")
    features = [name for name in header if name not in (label_column, group_column)]
    if not features:
        raise WorkloadError(f"{path}: no feature columns beside the label and group columns")
    label_at = positions[label_column]
    group_at = positions[group_column] if group_column else None
    feature_at = [(positions[name], name) for name in features]
    classes: set[str] = set()
    groups: set[str] = set()
    rows = 0
    for row in reader:
        if not row:
            continue
        where = f"{path}, line {reader.line_num}"
        if len(row) != len(header):
            raise WorkloadError(
                f"{where}: {len(row)} fields where the first line has {len(header)}"
            )
        for position, name in feature_at:
            _check_number(row[position], f"{where}, column {name!r}")
        if not row[label_at]:
            raise WorkloadError(f"{where}: the label is empty")
        classes.add(row[label_at])
        groups.add(row[group_at] if group_at is not None else str(rows))
        rows += 1
    if len(classes) < 2:
        raise WorkloadError(f"{path}: {len(classes)} class in {label_column!r}; at least 2 needed")
    if len(groups) < 2:
        raise WorkloadError(
            f"{path}: a single group in {group_column!r}; a split by group needs at least 2"
        )
    return CsvData(
        path=str(path.resolve()),
        label_column=label_column,
        group_column=group_column,
        feature_columns=tuple(features),
        classes=tuple(sorted(classes)),
        rows=rows,
        validation_fraction=validation_fraction,
    )


def _check_number(text: str, where: str) -> None:
    try:
        value = float(text)
    except ValueError:
        raise WorkloadError(f"{where}: {text!r} is not a number") from None
    if "_" in text:  # Python's own spelling of thousands, not a table's
        raise WorkloadError(f"{where}: {text!r} is not a number")
    if not abs(value) <= FLOAT32_MAX:
        raise WorkloadError(f"{where}: {text!r} is not finite, or too large for float32")
