"""What each level of each factor changes against the base, with interval and verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from trainload.analyse.study.contrasts import (
    Contrast,
    Pair,
    holm_levels,
    mean_difference,
    require_scipy,
)
from trainload.analyse.study.tidy import TidyStudy

if TYPE_CHECKING:
    import polars as pl

Verdict = Literal["differs", "no difference shown", "says nothing"]
CHANCE = 0.05
_NUMBERS = ("effect", "low", "high", "p_value")


def effect_table(
    study: TidyStudy, metric: str, base: Mapping[str, str] | None = None
) -> pl.DataFrame:
    """One row for each factor's level beside the base: change of the metric, interval, verdict.

    Compared are cells that are equal in every other factor, `pairs` of them. `effect` is a ratio
    minus one where all values are positive (`scale` says so), else a difference. The verdicts of
    one table are corrected together (Holm), and the intervals belong to them.
    """
    import polars as pl

    require_scipy()
    chosen = {**study.base, **(base or {})}
    cells, logs = values_by_cell(study, metric)
    rows, found = [], []
    for at, factor in enumerate(study.factors):
        levels = dict.fromkeys(levels[at] for levels in cells)
        for level in levels:
            if level == chosen[factor]:
                continue
            pairs = _pairs(cells, at, level, chosen[factor])
            rows.append({"factor": factor, "level": level, "base": chosen[factor],
                         "pairs": len(pairs)})  # fmt: skip
            found.append(mean_difference(pairs))
    judged = judge(found, logs=logs)
    schema: Mapping[str, Any] = {
        **dict.fromkeys(("factor", "level", "base"), pl.String),
        "pairs": pl.Int64,
        **dict.fromkeys(_NUMBERS, pl.Float64),
        **dict.fromkeys(("verdict", "scale"), pl.String),
    }
    whole = [{**row, **told} for row, told in zip(rows, judged, strict=True)]
    return pl.DataFrame(whole, schema=schema, orient="row")


def values_by_cell(
    study: TidyStudy, metric: str
) -> tuple[dict[tuple[str, ...], list[float]], bool]:
    """The values of each cell by its levels, as logarithms where all are positive."""
    known = study.counted.drop_nulls(metric)
    logs = known.height > 0 and bool((known[metric] > 0).all())
    cells: dict[tuple[str, ...], list[float]] = {}
    for *levels, value in known.select(*study.factors, metric).iter_rows():
        cells.setdefault(tuple(levels), []).append(math.log(value) if logs else value)
    return cells, logs


def judge(found: Sequence[Contrast | None], *, logs: bool) -> list[dict[str, Any]]:
    """Effect, interval, p-value and verdict of contrasts that are read together."""
    known = [contrast for contrast in found if contrast is not None]
    levels = iter(holm_levels([contrast.p_value for contrast in known], CHANCE))
    scale = "ratio - 1" if logs else "difference"
    told: list[dict[str, Any]] = []
    for contrast in found:
        if contrast is None:
            told.append({**dict.fromkeys(_NUMBERS), "verdict": "says nothing", "scale": scale})
            continue
        level = next(levels)
        low, high = contrast.bounds(level)
        verdict: Verdict = "differs" if contrast.p_value < level else "no difference shown"
        numbers = [math.expm1(min(n, 700.0)) if logs else n for n in (contrast.value, low, high)]
        told.append(
            dict(zip(_NUMBERS, (*numbers, contrast.p_value), strict=True))
            | {"verdict": verdict, "scale": scale}
        )
    return told


def _pairs(
    cells: Mapping[tuple[str, ...], Sequence[float]], at: int, level: str, base: str
) -> list[Pair]:
    """Values at the level and at the base of cells that differ in this factor alone."""
    found = []
    for levels, values in cells.items():
        if levels[at] == level:
            beside = cells.get((*levels[:at], base, *levels[at + 1 :]))
            if beside is not None:
                found.append((values, beside))
    return found
