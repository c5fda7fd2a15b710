"""Tables as they must be: columns, types and values; what is not sound is missing and named.

A sealed table may come from a stranger, so it is measured by its metadata before it is read.
Polars is imported when a table is read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainload.errors import RecordError
from trainload.record.inside import open_inside
from trainload.record.tables import SAMPLE_HEAD, require_polars

if TYPE_CHECKING:
    import polars as pl

MOST_COLUMNS = 4096
MOST_CELLS = 1 << 27
"""Of one table, 8 bytes each."""
MOST_PACKED = 100
"""Cells' bytes for each byte of the file: a record's own tables stay far below."""
_ALWAYS_CELLS = 1 << 22
_LARGEST = 1e18
"""A figure beyond it is none that was measured, and sums of it would leave the floats."""

_SHOWN = 5

Sound = tuple["pl.DataFrame", tuple[str, ...]]
"""A table, and a line for each thing in it that was not sound."""

_STEPS = {
    "step": int, "epoch": int, "start_s": float, "end_s": float, "step_s": float, "loss": float,
    "examples": int, "tokens": int,
}  # fmt: skip
_NO_NEED = ("examples", "tokens", "input_wait_s")
"""Columns that earlier formats do not have."""
_EPOCHS = {
    "epoch": int, "start_s": float, "end_s": float, "train_s": float, "validation_s": float,
    "steps": int, "train_loss": float, "input_wait_s": float,
}  # fmt: skip


def read_table(
    path: Path, columns: list[str] | None = None, *, absent: bool = False
) -> pl.DataFrame:
    """A parquet file of a run directory as it is; RecordError where it is none or too much.

    Columns that hold no numbers are left out where `columns` does not name them. With `absent` a
    column of that name that is not there, or holds no numbers, is passed over.
    """
    require_polars()
    import polars as pl

    try:
        with open_inside(path) as file:
            size_bytes = os.fstat(file.fileno()).st_size
            schema = pl.read_parquet_schema(file)
            numeric = [name for name, kind in schema.items() if kind.is_numeric()]
            wanted = columns or numeric
            if absent:
                wanted = [name for name in wanted if name in numeric]
            if len(schema) > MOST_COLUMNS:
                raise RecordError(f"{path} has {len(schema):,} columns; {MOST_COLUMNS:,} are read")
            file.seek(0)
            rows = int(pl.scan_parquet(file).select(pl.len()).collect().item())
            _check_size(path, rows, len(schema), size_bytes)
            file.seek(0)
            return pl.read_parquet(file, columns=wanted, n_rows=rows)
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror or error}") from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError) as error:
        raise RecordError(f"{path} is damaged: {_first_line(error)}") from None


def _check_size(path: Path, rows: int, columns: int, size_bytes: int) -> None:
    cells = rows * max(1, columns)
    if cells > _ALWAYS_CELLS and (cells > MOST_CELLS or 8 * cells > MOST_PACKED * size_bytes):
        raise RecordError(
            f"{path} says it has {rows:,} rows in {size_bytes:,} bytes, which no run leaves; "
            "it is not read"
        )


def sound_steps(found: pl.DataFrame, name: str) -> Sound:
    """Steps with every column; those without number or times, or that end before they begin, go."""
    import polars as pl

    frame, notes = _typed(found, _STEPS, name)
    whole = frame.drop_nulls(["step", "epoch", "start_s", "end_s"])
    whole = whole.filter(pl.col("end_s") >= pl.col("start_s"))
    # As sealing writes it, whatever a file says.
    whole = whole.with_columns(step_s=pl.col("end_s") - pl.col("start_s"))
    return whole, (*notes, *_gone(frame, whole, name))


def sound_epochs(found: pl.DataFrame, name: str) -> Sound:
    """Epochs with every column, validation's scores among them; those without a number go."""
    scores = {column: float for column in found.columns if column.startswith("validation_")}
    frame, notes = _typed(found, {**_EPOCHS, **scores}, name)
    whole = frame.drop_nulls(["epoch", "start_s", "end_s", "train_s"])
    return whole, (*notes, *_gone(frame, whole, name))


def sound_samples(found: pl.DataFrame, name: str, head: Sequence[str] = SAMPLE_HEAD) -> Sound:
    """Samples with their first columns and every one of numbers; those without a time go."""
    metered = {column: float for column in found.columns if column not in SAMPLE_HEAD}
    frame, notes = _typed(found, {**dict.fromkeys(head, float), **metered}, name)
    whole = frame.drop_nulls("t_s")
    return whole, (*notes, *_gone(frame, whole, name))


def _typed(found: pl.DataFrame, schema: Mapping[str, type], name: str) -> Sound:
    """The columns asked for, of their types, with what is no figure as null."""
    import polars as pl

    columns, missing = [], []
    alien = True  # holds nothing that was asked for, so that only literals would be selected
    for column, kind in schema.items():
        dtype = pl.Int64 if kind is int else pl.Float64
        held = found.schema.get(column)
        if held is None or not (held.is_numeric() or held == pl.Null):
            columns.append(pl.lit(None, dtype).alias(column))
            missing += [] if column in _NO_NEED else [column]
            continue
        alien = False
        value = pl.col(column).cast(pl.Float64, strict=False)
        value = pl.when(value.is_finite() & (value.abs() < _LARGEST)).then(
            pl.col(column) if kind is int else value
        )
        columns.append(value.cast(dtype, strict=False).alias(column))
    frame = found.with_columns(columns).select(list(schema)) if alien else found.select(columns)
    gone = {
        column: frame[column].null_count() - found[column].null_count()
        for column in frame.columns
        if column in found.columns and column not in missing
    }
    wrong = [f"{column} ({count:,})" for column, count in gone.items() if count]
    notes = []
    if missing:
        notes.append(f"{name} has no figures in {_listed(missing)}; taken as missing")
    if wrong:
        notes.append(f"{name} holds values that are no figures in {_listed(wrong)}; left out")
    return frame, tuple(notes)


def _gone(before: pl.DataFrame, after: pl.DataFrame, name: str) -> tuple[str, ...]:
    count = before.height - after.height
    return (f"{name}: {count:,} of {before.height:,} rows are not sound; left out",) * bool(count)


def _listed(names: list[str]) -> str:
    shown = ", ".join(name[:60] for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "it cannot be read")[:200]
