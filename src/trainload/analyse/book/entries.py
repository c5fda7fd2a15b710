"""One entry of the reference book, and entries as a frame; values alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import polars as pl

Origin = Literal["measured", "predicted", "imported"]
METRICS = (
    "peak_device_bytes",
    "peak_reserved_bytes",
    "peak_host_bytes",
    "step_s",
    "examples_per_s",
    "mean_power_w",
    "energy_per_example_j",
    "validation_accuracy",
    "duration_s",
    "energy_j",
)
"""In the order of the table. Memory of a device as the driver tells it, as the framework's
allocator reserved it, and of the host; energy of an example is mean power over throughput. The
last two are of the whole training."""
_TEXTS = (
    "model",
    "variant",
    "framework",
    "framework_version",
    "device",
    "setting",
    "precision",
    "optimizer",
    "origin",
    "source",
    "energy_source",
    "created",
    "note",
)


@dataclass(frozen=True)
class BookFigure:
    """The median over repetitions; of a prediction its value."""

    value: float
    low: float | None = None
    """Of the median's 95 % interval, of a prediction its range; None where neither can be told."""
    high: float | None = None
    repetitions: int = 1


@dataclass(frozen=True)
class BookEntry:
    """One training that somebody did, repeated or not, or that was predicted."""

    model: str
    origin: Origin
    source: str
    """What it comes from, in words."""
    variant: str = ""
    """What tells it from entries with the same model, framework, device, batch and precision."""
    framework: str | None = None
    framework_version: str | None = None
    device: str | None = None
    setting: str | None = None
    batch_size: int | None = None
    precision: str | None = None
    optimizer: str | None = None
    repetitions: int | None = None
    """None of a prediction."""
    figures: Mapping[str, BookFigure] = field(default_factory=dict)
    """By metric; what nobody measured is not there."""
    energy_source: str | None = None
    """What power and energy are of, such as `gpu0`."""
    software: Mapping[str, str | None] = field(default_factory=dict)
    created: str | None = None
    runs: Mapping[str, str] = field(default_factory=dict)
    """Each run and the SHA-256 of its run.json."""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Book:
    """Entries, and what could not become one."""

    title: str
    entries: tuple[BookEntry, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    """Runs that do not count, and why."""
    notes: tuple[str, ...] = ()

    def frame(self) -> pl.DataFrame:
        """One row an entry; see `book_frame`."""
        return book_frame(self.entries)


def in_order(entries: Iterable[BookEntry]) -> list[BookEntry]:
    """By model, framework, device and batch, so that like entries stand together."""
    return sorted(
        entries,
        key=lambda e: (e.model, e.framework or "", e.device or "", e.batch_size or 0, e.variant),
    )


def book_frame(entries: Sequence[BookEntry]) -> pl.DataFrame:
    """One row an entry: texts, batch, repetitions, and each metric with `_low`, `_high`, `_n`."""
    import polars as pl

    numbers = {name: pl.Float64 for m in METRICS for name in (m, f"{m}_low", f"{m}_high")}
    schema: dict[str, Any] = {
        **dict.fromkeys(_TEXTS[:6], pl.String),
        "batch_size": pl.Int64,
        **dict.fromkeys(_TEXTS[6:], pl.String),
        "repetitions": pl.Int64,
        **numbers,
        **{f"{metric}_n": pl.Int64 for metric in METRICS},
        "software": pl.String,
        "runs": pl.String,
    }
    rows = [{name: _row(entry).get(name) for name in schema} for entry in entries]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _row(entry: BookEntry) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(entry, name) for name in _TEXTS}
    row |= {"batch_size": entry.batch_size, "repetitions": entry.repetitions}
    for metric, figure in entry.figures.items():
        row[metric] = figure.value
        row |= {f"{metric}_low": figure.low, f"{metric}_high": figure.high}
        row[f"{metric}_n"] = figure.repetitions
    row["software"] = json.dumps(dict(entry.software), ensure_ascii=False, sort_keys=True)
    row["runs"] = " ".join(sorted(entry.runs))
    return {name: _whole(value) for name, value in row.items()}


def _whole(value: Any) -> Any:
    """Half characters, as JSON may hold them, escaped: no column takes them."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return value
