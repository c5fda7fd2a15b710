"""The best configuration by a stated rule, and those that cannot be told from it."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

from trainload.analyse.study.contrasts import mean_difference, require_scipy
from trainload.analyse.study.effects import judge, values_by_cell
from trainload.analyse.study.tidy import TidyStudy, cell_title

if TYPE_CHECKING:
    import polars as pl

SILENT = "says nothing"
_HIGHER = ("accuracy", "_per_s", "_f1_", "top1", "top5")


def higher_is_better(metric: str) -> bool:
    """What the metric's name says: accuracies and rates are better high, all else low."""
    return any(word in metric for word in _HIGHER)


def best_table(study: TidyStudy, metric: str, *, highest: bool | None = None) -> pl.DataFrame:
    """Cells from the best median on, each compared with the first; corrected together (Holm).

    `standing`: best, not distinguishable from it, worse, or says nothing (too few repetitions);
    `first, says nothing` where it can be told from none.
    """
    import polars as pl

    require_scipy()
    up = higher_is_better(metric) if highest is None else highest
    cells, logs = values_by_cell(study, metric)
    order = sorted(cells, key=lambda levels: statistics.median(cells[levels]), reverse=up)
    rows: list[dict[str, Any]] = []
    for levels in order:
        values = [math.exp(v) for v in cells[levels]] if logs else cells[levels]
        titled = dict(zip(study.factors, levels, strict=True))
        rows.append(
            {
                "cell": cell_title(titled, study.factors),
                **titled,
                "n": len(values),
                "median": statistics.median(values),
            }
        )
    others = [mean_difference([(cells[levels], cells[order[0]])]) for levels in order[1:]]
    told = [{**row, "standing": _standing(row["verdict"])} for row in judge(others, logs=logs)]
    silent = bool(told) and all(row["standing"] == SILENT for row in told)
    told.insert(0, {"standing": f"first, {SILENT}" if silent else "best"})
    schema: dict[str, Any] = {
        **dict.fromkeys(("cell", *study.factors), pl.String),
        "n": pl.Int64,
        **dict.fromkeys(("median", "effect", "low", "high", "p_value"), pl.Float64),
        "standing": pl.String,
    }
    whole = [
        {name: {**row, **more}.get(name) for name in schema}
        for row, more in zip(rows, told, strict=False)
    ]
    return pl.DataFrame(whole, schema=schema, orient="row")


def _standing(verdict: str) -> str:
    return {"differs": "worse", "no difference shown": "not distinguishable"}.get(verdict, verdict)
