"""Tables as they must be: columns, types and values; what is not sound is missing and named.

The one door to sealed tables. One that is not known (`known.py`) may come from a stranger, and is
read in a process of its own first (`trial.py`). Polars is imported when a table is read.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from trainload.errors import RecordError
from trainload.files import write_whole
from trainload.record.inside import read_inside
from trainload.record.known import digest_of, is_known, remember
from trainload.record.parquet import Unreadable, read_columns, read_note
from trainload.record.tables import SAMPLE_HEAD, require_polars

if TYPE_CHECKING:
    import polars as pl

LARGEST_TABLE_BYTES = 1 << 30
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
    path: Path, columns: Sequence[str] | None = None, *, absent: bool = False
) -> pl.DataFrame:
    """A parquet file of a run directory as it is; RecordError where it is none or too much.

    Columns that hold no numbers are left out where `columns` does not name them. With `absent` a
    column of that name that is not there, or holds no numbers, is passed over.
    """
    with _naming(path):
        return read_columns(_tried(path), columns, absent=absent)


def read_noted_table(path: Path, columns: Sequence[str], key: str) -> tuple[pl.DataFrame, str]:
    """As `read_table`, and the text that was kept in the file under this name."""
    with _naming(path):
        data = _tried(path)
        return read_columns(data, columns), read_note(data, key)


def save_table(
    path: Path, frame: pl.DataFrame, notes: Mapping[str, str] | None = None, *, sync: bool = False
) -> None:
    """Put a frame in the place of a table, and know it from then on; OSError leaves the old one."""
    packed = io.BytesIO()
    frame.write_parquet(packed, compression="zstd", metadata=dict(notes) if notes else None)
    data = packed.getvalue()
    write_whole(path, data, sync=sync)
    remember(digest_of(data))


def _tried(path: Path) -> bytes:
    """The bytes of a table that polars reads without harm: they are known, or a trial says so.

    The very bytes that were tried are handed on, whatever becomes of the file.
    """
    require_polars()
    data = read_inside(path, LARGEST_TABLE_BYTES)
    digest = digest_of(data)
    if not is_known(digest):
        from trainload.record.trial import find_trouble  # few need it, and it starts processes

        trouble = find_trouble(data) if data else "is damaged: it is empty"
        if trouble is not None:
            raise Unreadable(trouble)
        remember(digest)
    return data


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror or error}") from error
    except Unreadable as error:
        raise RecordError(f"{path} {error}") from None


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
