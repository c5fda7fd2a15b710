"""Runs as one tidy frame: a row a run, a column for each factor and metric.

Takes figures, gives frames; which runs count was decided by whoever brings them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainload.record.figures import RunFigures

if TYPE_CHECKING:
    import polars as pl

HEAD = ("cell", "repetition", "run", "counts", "reason")
"""Columns before the factors."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run of a study."""

    run: str
    figures: RunFigures | None
    """None where the run cannot be read."""
    reason: str | None = None
    """Why it does not count; None where it does."""


@dataclass(frozen=True, kw_only=True)
class PlannedCell:
    """A cell that was to be measured, whether it was or not."""

    identity: str
    factors: Mapping[str, Any]
    reason: str | None = None
    """Why nothing of it counts, where somebody said so."""


@dataclass(frozen=True, kw_only=True)
class TidyStudy:
    """All runs of a study in one frame."""

    frame: pl.DataFrame
    """cell, repetition, run, counts, reason, a text for each factor, a number for each metric."""
    factors: tuple[str, ...]
    metrics: tuple[str, ...]
    base: Mapping[str, str]
    """Of each factor the level that most cells have, the first of several."""
    missing: pl.DataFrame
    """cell, the factors, reason: cells of which no run counts."""

    @property
    def counted(self) -> pl.DataFrame:
        """The runs that count."""
        return self.frame.filter("counts")


def tidy_study(
    runs: Sequence[Measured], planned: Sequence[PlannedCell] = (), *, fewest: bool = False
) -> TidyStudy:
    """The frame of some runs; factors are those of their study, else what differs between them.

    With `fewest`, of what differs only as much as tells the runs apart: a setting that goes with
    those before it, as a version goes with its framework, is no factor of its own.
    """
    import polars as pl

    factors = _factor_names(runs, planned, fewest=fewest)
    metrics = sorted({m for r in runs if r.figures for m in r.figures.metrics} - set(factors))
    rows = [_row(run, factors) for run in runs]
    repeated: Counter[str] = Counter()
    for row in rows:
        row["repetition"] = repeated[row["cell"]]
        repeated[row["cell"]] += 1
    texts = ("cell", "run", "reason", *factors)
    schema: dict[str, Any] = {
        **dict.fromkeys(HEAD, pl.String),
        "repetition": pl.Int64,
        "counts": pl.Boolean,
        **dict.fromkeys(texts, pl.String),
        **dict.fromkeys(metrics, pl.Float64),
    }
    whole = [{name: row.get(name) for name in schema} for row in rows]
    frame = pl.DataFrame(whole, schema=schema, orient="row")
    return TidyStudy(
        frame=frame,
        factors=tuple(factors),
        metrics=tuple(metrics),
        base={name: _base_level(name, frame, planned) for name in factors},
        missing=_missing(frame, factors, planned),
    )


def _factor_names(
    runs: Sequence[Measured], planned: Sequence[PlannedCell], *, fewest: bool
) -> list[str]:
    told = [r.figures.factors for r in runs if r.figures] + [cell.factors for cell in planned]
    names = list(dict.fromkeys(name for factors in told for name in factors))
    if names:
        return names
    facts = [run.figures.facts for run in runs if run.figures]
    every = dict.fromkeys(name for found in facts for name in found)
    differing = [n for n in every if len({level_text(found.get(n)) for found in facts}) > 1]
    return _telling(differing, facts) if fewest else differing


def _telling(names: Sequence[str], facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Those names that split the runs further than the ones before them do."""
    kept: list[str] = []
    groups: list[tuple[str, ...]] = [()] * len(facts)
    for name in names:
        finer = [
            (*group, level_text(found.get(name)))
            for group, found in zip(groups, facts, strict=True)
        ]
        if len(set(finer)) > len(set(groups)):
            kept.append(name)
            groups = finer
    return kept


def level_text(value: Any) -> str:
    """A level as a text: words as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _row(run: Measured, factors: Sequence[str]) -> dict[str, Any]:
    figures = run.figures
    row: dict[str, Any] = {"run": run.run, "counts": run.reason is None, "reason": run.reason}
    if figures is None:
        return {**row, "cell": run.run, "counts": False}
    told: Mapping[str, Any] = figures.factors or figures.facts
    levels = {name: level_text(told.get(name)) for name in factors}
    return {**row, **figures.metrics, **levels, "cell": cell_title(levels, factors)}


def cell_title(levels: Mapping[str, str], factors: Iterable[str]) -> str:
    """`batch_size=64 precision=bf16`; `all` without a factor."""
    return " ".join(f"{name}={levels[name]}" for name in factors) or "all"


def _base_level(name: str, frame: pl.DataFrame, planned: Sequence[PlannedCell]) -> str:
    """The level of most planned cells, without a plan of most runs; the first of several."""
    levels = [level_text(cell.factors.get(name)) for cell in planned]
    counts = Counter(levels or frame[name].drop_nulls().to_list())
    return counts.most_common(1)[0][0] if counts else ""


def _missing(
    frame: pl.DataFrame, factors: Sequence[str], planned: Sequence[PlannedCell]
) -> pl.DataFrame:
    """Planned cells and those with runs, of which no run counts."""
    import polars as pl

    known: dict[str, dict[str, Any]] = {}
    for cell in planned:
        levels = {name: level_text(cell.factors.get(name)) for name in factors}
        reason = cell.reason or "never measured"
        known[cell_title(levels, factors)] = {**levels, "reason": reason}
    for row in frame.filter(~pl.col("counts")).iter_rows(named=True):
        known[row["cell"]] = {**{n: row[n] for n in factors}, "reason": row["reason"]}
    for title in frame.filter("counts")["cell"].unique():
        known.pop(title, None)
    rows = [{"cell": title, **found} for title, found in known.items()]
    columns = dict.fromkeys(("cell", *factors, "reason"), pl.String)
    return pl.DataFrame(rows, schema=columns, orient="row")
