"""Divides a data set's rows by group, so that no group stands on both sides; pure."""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass
from typing import Sequence

from trainload_worker.errors import DataError


@dataclass(frozen=True)
class Split:
    """Row numbers for training and validation, ascending, and the number of groups in each."""

    train_rows: array[int]
    validation_rows: array[int]
    train_group_count: int
    validation_group_count: int


def split_at(row_count: int, first_validation_row: int) -> Split:
    """The data's own split: its validation rows stand last; DataError where a part is empty."""
    if not 0 < first_validation_row < row_count:
        raise DataError(
            f"of {row_count} rows {first_validation_row} are for training; "
            "training and validation need one row each"
        )
    return Split(
        train_rows=array("q", range(first_validation_row)),
        validation_rows=array("q", range(first_validation_row, row_count)),
        train_group_count=first_validation_row,
        validation_group_count=row_count - first_validation_row,
    )


def split_by_group(groups: Sequence[int], validation_fraction: float, seed: int) -> Split:
    """Puts `validation_fraction` of the groups aside, chosen by `seed`; at least one each side.

    The fraction is of groups and not of rows: rows follow their group. DataError with under two.
    """
    names = _shuffled_names(groups, seed)
    wanted = round(len(names) * validation_fraction)
    validation_count = min(max(wanted, 1), len(names) - 1)
    return _hold_out(groups, names[:validation_count], len(names))


def split_fold(groups: Sequence[int], folds: int, fold: int, seed: int) -> Split:
    """Puts one of `folds` equal parts of the groups aside; over all folds each group once.

    DataError with fewer groups than folds, or where there is no such fold.
    """
    names = _shuffled_names(groups, seed)
    if not 0 <= fold < folds:
        raise DataError(f"fold {fold}: there are folds 0 to {folds - 1}")
    if folds > len(names):
        raise DataError(f"{folds} folds: the data hold {len(names)} groups")
    return _hold_out(groups, names[fold::folds], len(names))


def _shuffled_names(groups: Sequence[int], seed: int) -> list[int]:
    names = sorted(set(groups))
    if len(names) < 2:
        raise DataError(
            f"the data hold {len(names)} group(s); training and validation need one group each"
        )
    random.Random(f"split-{seed}").shuffle(names)
    return names


def _hold_out(groups: Sequence[int], chosen: Sequence[int], group_count: int) -> Split:
    held_out = frozenset(chosen)
    train_rows = array("q")
    validation_rows = array("q")
    for row, group in enumerate(groups):
        (validation_rows if group in held_out else train_rows).append(row)
    return Split(
        train_rows=train_rows,
        validation_rows=validation_rows,
        train_group_count=group_count - len(held_out),
        validation_group_count=len(held_out),
    )
