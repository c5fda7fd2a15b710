"""The scores of one epoch out of many: the last, and the best by validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

_PREFIX = "validation_"
_NO_METRICS = (f"{_PREFIX}s",)


@dataclass(frozen=True, kw_only=True)
class EpochScore:
    """One epoch's measured scores; a score that does not exist is None."""

    epoch: int
    """Counted from 0, as in the tables."""
    train_loss: float | None
    validation: Mapping[str, float | None] = field(default_factory=dict)
    """`loss`, and as fractions `accuracy`, `f1_weighted`, `f1_macro`, `top5_accuracy`."""


def final_epoch(epochs: pl.DataFrame) -> EpochScore | None:
    """The last epoch's scores; None without a finished epoch."""
    if epochs.is_empty():
        return None
    return _score(epochs.sort("epoch").row(-1, named=True))


def best_epoch(epochs: pl.DataFrame) -> EpochScore | None:
    """The first epoch of the highest validation accuracy, else of the lowest validation loss.

    None where no epoch was validated.
    """
    for column, descending in ((f"{_PREFIX}accuracy", True), (f"{_PREFIX}loss", False)):
        if column not in epochs.columns:
            continue
        scored = epochs.drop_nulls(column).sort(
            column, "epoch", descending=[descending, False], maintain_order=True
        )
        if not scored.is_empty():
            return _score(scored.row(0, named=True))
    return None


def epoch_length_s(epochs: pl.DataFrame) -> float | None:
    """Mean seconds of an epoch, its validation included; None without a finished epoch."""
    if epochs.is_empty():
        return None
    lengths = epochs["train_s"] + epochs["validation_s"].fill_null(0.0)
    return float(lengths.sum()) / epochs.height


def _score(row: Mapping[str, Any]) -> EpochScore:
    return EpochScore(
        epoch=int(row["epoch"]),
        train_loss=row.get("train_loss"),
        validation={
            name.removeprefix(_PREFIX): value
            for name, value in row.items()
            if name.startswith(_PREFIX) and name not in _NO_METRICS
        },
    )
