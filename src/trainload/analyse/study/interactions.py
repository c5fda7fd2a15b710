"""Main effects and interactions of a full grid by analysis of variance."""

from __future__ import annotations

from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Any

from trainload.analyse.study.contrasts import holm_levels, require_scipy
from trainload.analyse.study.effects import CHANCE, values_by_cell
from trainload.analyse.study.tidy import TidyStudy

if TYPE_CHECKING:
    import polars as pl

Levels = tuple[str, ...]


def interaction_table(study: TidyStudy, metric: str) -> pl.DataFrame | None:
    """F test of each factor and each pair of factors, corrected together (Holm).

    On logarithms where all values are positive, so that no interaction means factors that
    multiply. Each term is what the fit of all main effects and pairs loses without it, over the
    spread of repetitions within cells. None unless every combination of levels was measured, with
    repetitions.
    """
    import polars as pl

    require_scipy()
    cells, _ = values_by_cell(study, metric)
    levels = [sorted({found[at] for found in cells}) for at in range(len(study.factors))]
    varied = [at for at, found in enumerate(levels) if len(found) > 1]
    runs = sum(map(len, cells.values()))
    # Counted, not listed: of unlike runs the combinations are more than memory holds.
    if len(varied) < 2 or len(cells) != prod(map(len, levels)) or runs <= len(cells):
        return None
    terms: list[tuple[int, ...]] = [(at,) for at in varied]
    terms += combinations(varied, 2)
    rows = _f_tests(cells, levels, terms)
    if rows is None:
        return None
    judged = holm_levels([row["p_value"] for row in rows], CHANCE)
    for row, term, level in zip(rows, terms, judged, strict=True):
        row["term"] = " × ".join(study.factors[at] for at in term)
        row["verdict"] = "differs" if row["p_value"] < level else "no difference shown"
    schema: dict[str, Any] = {
        "term": pl.String,
        "degrees": pl.Int64,
        "share_fraction": pl.Float64,
        "f": pl.Float64,
        "p_value": pl.Float64,
        "verdict": pl.String,
    }
    whole = [{name: row[name] for name in schema} for row in rows]
    return pl.DataFrame(whole, schema=schema, orient="row")


def _f_tests(
    cells: dict[Levels, list[float]], levels: list[list[str]], terms: list[tuple[int, ...]]
) -> list[dict[str, Any]] | None:
    """Degrees, share of the variance, F and p of each term; None where repetitions do not vary."""
    import numpy as np
    from scipy import stats

    values = np.array([value for found in cells.values() for value in found])
    where = [found for found, inside in cells.items() for _ in inside]
    within = sum(float(np.sum((np.array(v) - np.mean(v)) ** 2)) for v in cells.values())
    free = len(values) - len(cells)
    total = float(np.sum((values - values.mean()) ** 2))
    if within <= 1e-12 * max(total, 1e-300):
        return None
    columns = {term: _columns(where, levels, term) for term in terms}

    def left(without: tuple[int, ...] | None) -> float:
        kept = [columns[term] for term in terms if term != without]
        design = np.column_stack([np.ones(len(values)), *kept])
        fitted = design @ np.linalg.lstsq(design, values, rcond=None)[0]
        return float(np.sum((values - fitted) ** 2))

    whole, rows = left(None), []
    for term in terms:
        degrees = columns[term].shape[1]
        lost = max(left(term) - whole, 0.0)
        f = lost / degrees / (within / free)
        rows.append(
            {
                "degrees": degrees,
                "share_fraction": lost / total,
                "f": f,
                "p_value": float(stats.f.sf(f, degrees, free)),
            }
        )
    return rows


def _columns(where: list[Levels], levels: list[list[str]], term: tuple[int, ...]) -> Any:
    """Columns of a term in sum-to-zero coding: a main effect then means the same with pairs in."""
    import numpy as np

    product_of = np.ones((len(where), 1))
    for at in term:
        index = np.array([levels[at].index(found[at]) for found in where])
        coded = np.vstack([np.eye(len(levels[at]) - 1), -np.ones(len(levels[at]) - 1)])[index]
        product_of = np.einsum("ni,nj->nij", product_of, coded).reshape(len(where), -1)
    return product_of
