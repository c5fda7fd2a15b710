"""`layers.parquet`: where each traced step went, kept once it has been worked out.

Whoever works it out hands over the rows and a text of its own; both come back as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainload.errors import RecordError
from trainload.record.layout import LAYERS_TABLE
from trainload.record.sound import read_noted_table, save_table

if TYPE_CHECKING:
    import polars as pl

_KEY = "trainload"


def save_layer_table(run_dir: Path, rows: pl.DataFrame, text: str) -> bool:
    """Keep the table; False where the folder or the disk refuses, which loses nothing."""
    path = run_dir / LAYERS_TABLE
    try:
        save_table(path, rows, {_KEY: text})
    except OSError:
        return False
    return True


def load_layer_table(run_dir: Path, columns: Sequence[str]) -> tuple[pl.DataFrame, str] | None:
    """These columns of the table and its text as kept; None where there are none to be read."""
    try:
        return read_noted_table(run_dir / LAYERS_TABLE, columns, _KEY)
    except RecordError:
        return None
