"""The difference of the step time by layer and phase: parts that add up to it exactly.

Takes attributions of runs, gives rows; reads no trace.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from trainload.analyse.attribution.types import RankLayers
from trainload.analyse.compare.cells import CellPair
from trainload.analyse.compare.values import (
    LEVEL,
    ComparedRun,
    LayerDifference,
    MetricDifference,
    PartKey,
    Verdict,
)
from trainload.analyse.study.contrasts import Contrast, holm_levels, mean_difference

if TYPE_CHECKING:
    import polars as pl

NOT_EXPLAINED = "not explained"
"""Path of what no part of either side explains; its row makes the sum exact."""
MODEL = "(model)"
IDLE = "idle"
_NAMES = {"python": "host (Python)", "copy": "copies", "input": "input wait"}
Parts = Mapping[PartKey, float]


def parts_of(rank: RankLayers, step_s: float | None) -> dict[PartKey, float] | None:
    """Seconds of an untraced step by part, scaled to `step_s`; None where that is not known.

    Attribution already gives times of untraced steps near its windows; all parts are scaled by one
    factor to the run's own step time, so that they sum to it.
    """
    import polars as pl

    if step_s is None or rank.step_s <= 0:
        return None
    keys = ("kind", "root", "layer", "phase", "cause")
    summed = rank.rows.group_by(keys, maintain_order=True).agg(pl.col("time_s").sum())
    whole = float(summed["time_s"].sum())
    if whole <= 0:
        return None
    roots = len(set(_roots(rank.rows))) > 1
    found: dict[PartKey, float] = {}
    for kind, root, layer, phase, cause, time_s in summed.iter_rows():
        key = _key(kind, root if roots else None, layer, phase, cause)
        found[key] = found.get(key, 0.0) + time_s * step_s / whole
    return found


def _roots(rows: pl.DataFrame) -> list[str]:
    return rows["root"].drop_nulls().unique().to_list()


def _key(
    kind: str, root: str | None, layer: str | None, phase: str | None, cause: str | None
) -> PartKey:
    """Names that frameworks share: of several models alone the root is part of the path."""
    if kind == "remainder":
        return PartKey(NOT_EXPLAINED, None)
    if layer is None:
        name = _NAMES.get(kind, kind)
        return PartKey(f"{name}: {cause}" if cause else name, phase)
    path = layer or MODEL
    if root is not None:
        path = f"{root}.{layer}" if layer else root
    return PartKey(path, IDLE if kind == "idle" else phase)


def compare_layers(
    pairs: Sequence[CellPair], step: MetricDifference, *, margin: float
) -> tuple[tuple[LayerDifference, ...], tuple[str, ...]]:
    """The parts of the step's difference, and notes; no rows where there is no such difference.

    Each run's parts sum to its step time; a side's are their means, scaled to the side's step
    time. What is left, rounding included, is the row `not explained`. Verdicts of all parts are
    corrected together.
    """
    if step.difference is None or step.a is None or step.b is None:
        return (), ("no step time on both sides, so nothing to explain",)
    traced = [(_parts(pair.a), _parts(pair.b)) for pair in pairs]
    used = [(a, b) for a, b in traced if a and b]
    if not used:
        return (_remainder(step, (), 0.0, 0.0),), (_untraced(traced),)
    keys = list(dict.fromkeys(key for pair in used for side in pair for run in side for key in run))
    scale_a = step.a / _mean_of(used, 0, None)
    scale_b = step.b / _mean_of(used, 1, None)
    rows = []
    contrasts: dict[PartKey, Contrast | None] = {}
    for key in keys:
        if key.path == NOT_EXPLAINED:
            continue
        a_s, b_s = scale_a * _mean_of(used, 0, key), scale_b * _mean_of(used, 1, key)
        rows.append((key, a_s, b_s))
        values = [
            ([scale_b * run.get(key, 0.0) for run in b], [scale_a * run.get(key, 0.0) for run in a])
            for a, b in used
        ]
        contrasts[key] = mean_difference(values)
    judged = _judge_all(rows, contrasts, margin)
    ordered = sorted(judged, key=lambda row: (_undecided(row.verdict), -abs(row.difference_s)))
    unknown = PartKey(NOT_EXPLAINED, None)
    rest = _remainder(
        step, ordered, scale_a * _mean_of(used, 0, unknown), scale_b * _mean_of(used, 1, unknown)
    )
    counts = [sum(len(pair[side]) for pair in used) for side in (0, 1)]
    note = f"layers of {counts[0]} and {counts[1]} runs, each scaled to its untraced step time"
    return (*ordered, rest), (note,)


def _parts(runs: Sequence[ComparedRun]) -> list[Parts]:
    return [run.parts for run in runs if run.parts]


def _untraced(traced: Sequence[tuple[list[Parts], list[Parts]]]) -> str:
    lacking = [name for at, name in enumerate("AB") if not any(pair[at] for pair in traced)]
    which = " and ".join(lacking) or "the cells that both have"
    return f"no traced layers in {which}: run with --layers to have the difference explained"


def _mean_of(
    used: Sequence[tuple[list[Parts], list[Parts]]], side: int, key: PartKey | None
) -> float:
    """Mean over cells of the mean over runs, of one part or (None) of the whole step."""
    means = []
    for pair in used:
        runs = pair[side]
        times = [math.fsum(run.values()) if key is None else run.get(key, 0.0) for run in runs]
        means.append(math.fsum(times) / len(times))
    return math.fsum(means) / len(means)


def _judge_all(
    rows: Sequence[tuple[PartKey, float, float]],
    contrasts: Mapping[PartKey, Contrast | None],
    margin: float,
) -> list[LayerDifference]:
    known = {key: c for key, _, _ in rows if (c := contrasts[key]) is not None}
    levels = dict(
        zip(known, holm_levels([c.p_value for c in known.values()], 1 - LEVEL), strict=True)
    )
    found = []
    for key, a_s, b_s in rows:
        contrast = contrasts[key]
        low_s = high_s = None
        if contrast is not None:
            low_s, high_s = contrast.bounds(levels[key])
        found.append(
            LayerDifference(
                path=key.path,
                phase=key.phase,
                a_s=a_s,
                b_s=b_s,
                difference_s=b_s - a_s,
                low_s=low_s,
                high_s=high_s,
                verdict=_verdict(low_s, high_s, margin * max(a_s, b_s)),
                change="new" if a_s == 0 < b_s else "vanished" if b_s == 0 < a_s else None,
            )
        )
    return found


def _verdict(low_s: float | None, high_s: float | None, near_s: float) -> Verdict:
    if low_s is None or high_s is None:
        return "inconclusive"
    if -near_s <= low_s and high_s <= near_s:
        return "same"
    if low_s <= 0 <= high_s:
        return "inconclusive"
    return "slower" if low_s > 0 else "faster"


def _undecided(verdict: Verdict) -> bool:
    return verdict not in ("slower", "faster")


def _remainder(
    step: MetricDifference, rows: Sequence[LayerDifference], a_s: float, b_s: float
) -> LayerDifference:
    """What the other rows leave of the step's difference."""
    assert step.difference is not None, "asked for only where it is known"
    rest_s = step.difference - math.fsum(row.difference_s for row in rows)
    if not rows:
        a_s, b_s = step.a or 0.0, step.b or 0.0
    return LayerDifference(path=NOT_EXPLAINED, phase=None, a_s=a_s, b_s=b_s, difference_s=rest_s)
