"""The difference of the step time by layer and phase: parts that add up to it exactly.

Takes attributions of runs, gives rows; reads no trace.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainload.analyse.attribution.types import RankLayers
from trainload.analyse.compare.cells import CellPair
from trainload.analyse.compare.parts import NOT_EXPLAINED, Parts, judge_parts, run_speeds
from trainload.analyse.compare.values import (
    ComparedRun,
    LayerDifference,
    MetricDifference,
    PartKey,
    Verdict,
)

MODEL = "(model)"
IDLE = "idle"
_NAMES = {"python": "host (Python)", "copy": "copies", "input": "input wait"}


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
    several = rank.rows["root"].n_unique() - rank.rows["root"].has_nulls() > 1
    found: dict[PartKey, float] = {}
    for *part, time_s in summed.iter_rows():
        key = key_of(*part, several=several)
        found[key] = found.get(key, 0.0) + time_s * step_s / whole
    return found


def key_of(
    kind: str,
    root: str | None,
    layer: str | None,
    phase: str | None,
    cause: str | None,
    *,
    several: bool,
) -> PartKey:
    """Names that frameworks share: the root is part of a path only where there are `several`."""
    if kind == "remainder":
        return PartKey(NOT_EXPLAINED, None)
    if layer is None:
        name = _NAMES.get(kind, kind)
        return PartKey(f"{name}: {cause}" if cause else name, phase)
    path = layer or MODEL
    if several and root is not None:
        path = f"{root}.{layer}" if layer else root
    return PartKey(path, IDLE if kind == "idle" else phase)


@dataclass(frozen=True, kw_only=True)
class ExplainedStep:
    """The parts of the step's difference, the change they share, and what to know of them."""

    rows: tuple[LayerDifference, ...]
    shared_fraction: float | None = None
    notes: tuple[str, ...] = ()


def compare_layers(
    pairs: Sequence[CellPair], step: MetricDifference, *, margin: float
) -> ExplainedStep:
    """The parts of the step's difference; no rows where there is no such difference.

    Each run's parts sum to its step time; a side's are their mean shares of the side's step time,
    so that no slow run outweighs the others. What is left, rounding included, is the row
    `not explained`.
    """
    if step.difference is None or step.a is None or step.b is None:
        return ExplainedStep(rows=(), notes=("no step time on both sides: nothing to explain",))
    traced = [(_parts(pair.a), _parts(pair.b)) for pair in pairs]
    used = [(a, b) for a, b in traced if a and b]
    if not used:
        rest = _remainder(step, (), step.a, step.b)
        return ExplainedStep(rows=(rest,), notes=(_untraced(traced),))
    even = [(_scaled(a, step.a), _scaled(b, step.b)) for a, b in used]
    keys = list(dict.fromkeys(k for pair in used for side in pair for run in side for k in run))
    keys = [key for key in keys if key.path != NOT_EXPLAINED]
    speeds = [run_speeds(a, b, keys) for a, b in used]
    shared = math.exp(
        math.fsum(_mean(list(map(math.log, b))) - _mean(list(map(math.log, a))) for a, b in speeds)
        / len(speeds)
    )
    means = {key: (_mean_of(even, 0, key), _mean_of(even, 1, key)) for key in keys}
    judged = judge_parts(means, used, speeds, shared, margin)
    ordered = sorted(judged, key=lambda row: (_undecided(row.verdict), -abs(row.own_s or 0.0)))
    unknown = PartKey(NOT_EXPLAINED, None)
    rest = _remainder(step, ordered, _mean_of(even, 0, unknown), _mean_of(even, 1, unknown))
    counts = [sum(len(pair[side]) for pair in used) for side in (0, 1)]
    note = f"layers of {counts[0]} and {counts[1]} runs, each scaled to its untraced step time"
    return ExplainedStep(rows=(*ordered, rest), shared_fraction=shared - 1, notes=(note,))


def _scaled(runs: Sequence[Parts], step_s: float) -> list[Parts]:
    """Each run with its parts' shares of a step that takes `step_s`."""
    wholes = [math.fsum(run.values()) for run in runs]
    return [
        {key: step_s * time_s / whole for key, time_s in run.items()}
        for run, whole in zip(runs, wholes, strict=True)
    ]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _parts(runs: Sequence[ComparedRun]) -> list[Parts]:
    return [run.parts for run in runs if run.parts]


def _untraced(traced: Sequence[tuple[list[Parts], list[Parts]]]) -> str:
    lacking = [name for at, name in enumerate("AB") if not any(pair[at] for pair in traced)]
    which = " and ".join(lacking) or "the cells that both have"
    return f"no traced layers in {which}: run with --layers to have the difference explained"


def _mean_of(used: Sequence[Sequence[Sequence[Parts]]], side: int, key: PartKey) -> float:
    """Mean over cells of the mean over runs."""
    return _mean([_mean([run.get(key, 0.0) for run in pair[side]]) for pair in used])


def _undecided(verdict: Verdict) -> bool:
    return verdict not in ("slower", "faster")


def _remainder(
    step: MetricDifference, rows: Sequence[LayerDifference], a_s: float, b_s: float
) -> LayerDifference:
    """What the other rows leave of the step's difference."""
    assert step.difference is not None, "asked for only where it is known"
    rest_s = step.difference - math.fsum(row.difference_s for row in rows)
    return LayerDifference(path=NOT_EXPLAINED, phase=None, a_s=a_s, b_s=b_s, difference_s=rest_s)
