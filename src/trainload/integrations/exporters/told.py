"""What a run tells another tool: parameters, final figures, and series with step and time."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from trainload.errors import MissingPart
from trainload.record import Run
from trainload.record.figures import RunFigures

if TYPE_CHECKING:
    import polars as pl

_STEP_COLUMNS = ("loss", "step_s")
_ROW = "number of the row"
MOST_POINTS = 2000
"""Of a series; of more, every n-th goes along: the stores take each value one by one."""
_NO_SERIES = ("t_s", "epoch", "start_s", "end_s", "step")


@dataclass(frozen=True, kw_only=True)
class Point:
    """Values of one moment."""

    step: int
    """Training step, epoch or number of the sample, from 0 or as recorded."""
    time_s: float
    """Seconds since the run's start."""
    values: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class RunTold:
    """One run as other tools take it."""

    name: str
    """Its folder's: files are named by it, and a record may come from a stranger."""
    began_s: float
    """Seconds since 1970; 0 where the record does not say."""
    ended_s: float
    outcome: str | None
    study: str | None
    parameters: Mapping[str, str]
    """What it was asked to be."""
    figures: Mapping[str, float]
    """Headline figures, means of loads, amounts of counters."""
    series: Mapping[str, tuple[Point, ...]]
    """By kind: `train` over steps, `epoch` over epochs, `system` over samples."""


def tell_run(run: Run, figures: RunFigures) -> RunTold:
    """A sealed run with its figures as other tools take it."""
    began_s = _began_s(run.manifest.created)
    return RunTold(
        name=run.path.name,
        began_s=began_s,
        ended_s=began_s + figures.metrics.get("duration_s", 0.0),
        outcome=figures.outcome,
        study=figures.study,
        parameters={name: _text(v) for name, v in figures.facts.items() if v is not None},
        figures=dict(figures.metrics),
        series={
            "train": tuple(_points(run.steps, "step", "end_s", _STEP_COLUMNS)),
            "epoch": tuple(_points(run.epochs, "epoch", "end_s", None)),
            "system": tuple(_points(run.samples, None, "t_s", None)),
        },
    )


def require_library(tool: str, library: str, extra: str) -> None:
    """MissingPart, with the command that mends it, where the tool's library is not installed."""
    if importlib.util.find_spec(library) is None:
        raise MissingPart(
            f"files of {tool} need {library}, which is not installed; "
            f"pip install 'trainload[{extra}]'"
        )


def _points(
    frame: pl.DataFrame, step: str | None, time: str, columns: tuple[str, ...] | None
) -> Iterator[Point]:
    known = frame.columns if columns is None else [c for c in columns if c in frame.columns]
    numbers = [c for c in known if frame[c].dtype.is_numeric() and c not in _NO_SERIES]
    if time not in frame.columns:
        return
    every = -(-frame.height // MOST_POINTS) or 1
    numbered = frame.with_row_index(_ROW).gather_every(every)
    for row in numbered.iter_rows(named=True):
        values = {name: float(row[name]) for name in numbers if row[name] is not None}
        if values and row[time] is not None:
            number = row[_ROW] if step is None or row[step] is None else row[step]
            yield Point(step=int(number), time_s=float(row[time]), values=values)


def _began_s(created: str | None) -> float:
    try:
        return 0.0 if created is None else datetime.fromisoformat(created).timestamp()
    except ValueError:
        return 0.0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
