"""Reads a labelled table from a CSV file; the only file this module opens is that one."""

from __future__ import annotations

import csv
import math
import os
from array import array
from typing import Iterable, Mapping

from trainload_worker.data.dataset import Dataset
from trainload_worker.errors import DataError
from trainload_worker.protocol.data import CsvData


def load_csv(spec: CsvData) -> Dataset:
    """The table's rows in file order, features as they stand; DataError says file, line, column."""
    if os.path.exists(spec.path) and not os.path.isfile(spec.path):
        raise DataError(f"{spec.path}: no plain file")
    try:
        with open(spec.path, newline="", encoding="utf-8-sig") as file:
            return _read_rows(spec, file)
    except OSError as error:
        raise DataError(f"{spec.path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{spec.path}: not UTF-8 at byte {error.start}") from error
    except csv.Error as error:
        raise DataError(f"{spec.path}: {error}") from error


def _read_rows(spec: CsvData, file: Iterable[str]) -> Dataset:
    reader = csv.reader(file)
    header = next(reader, None)
    if header is None:
        raise DataError(f"{spec.path}: the file is empty")
    places = {name: at for at, name in enumerate(header)}
    columns = [_position(spec, places, name) for name in spec.feature_columns]
    label_at = _position(spec, places, spec.label_column)
    group_at = None if spec.group_column is None else _position(spec, places, spec.group_column)
    class_index = {name: index for index, name in enumerate(spec.classes)}
    group_index: dict[str, int] = {}
    features, labels, groups = array("f"), array("q"), array("q")
    for cells in reader:
        if not cells:
            continue
        where = f"{spec.path}, line {reader.line_num}"
        if len(cells) != len(header):
            raise DataError(f"{where}: {len(cells)} cells, but the header has {len(header)}")
        for at in columns:
            features.append(_number(cells[at], where, header[at]))
        label = cells[label_at]
        if label not in class_index:
            raise DataError(
                f"{where}, column {header[label_at]}: {label!r:.80} is none of the classes"
            )
        labels.append(class_index[label])
        name = str(len(groups)) if group_at is None else cells[group_at]
        groups.append(group_index.setdefault(name, len(group_index)))
    return Dataset(
        features=features,
        labels=labels,
        groups=groups,
        feature_count=len(columns),
        classes=spec.classes,
    )


def _position(spec: CsvData, places: Mapping[str, int], name: str) -> int:
    if name not in places:
        raise DataError(f"{spec.path}, line 1: there is no column {name!r}")
    return places[name]


def _number(cell: str, where: str, column: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    # Beyond float32 the array would hold an infinity, and every loss after it.
    if not abs(value) <= 3.4e38:
        raise DataError(f"{where}, column {column}: {cell!r:.80} is not a finite number")
    return value
