"""The processes of one run against each other: skew of their steps, who waits for whom.

Reads one run's tables and attributions; a wait is known only where layers were traced.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from trainload.analyse.attribution.types import RankLayers
from trainload.analyse.study.contrasts import holm_levels, mean_difference, require_scipy
from trainload.analyse.warmup import find_warmup

if TYPE_CHECKING:
    import polars as pl

CHANCE = 0.05
_FEWEST_STEPS = 3

RankVerdict = Literal["slow", "even", "inconclusive"]
Judged = tuple[float | None, float | None, RankVerdict]
_UNJUDGED: Judged = None, None, "inconclusive"


@dataclass(frozen=True, kw_only=True)
class RankRow:
    """One process beside the others, in seconds of a step."""

    rank: int
    place: str
    """Its device and cores as it told them; a dash where it did not."""
    step_s: float | None
    """Median after warm-up."""
    late_s: float | None
    """Median of its step's end after the end of whichever process was first."""
    last_fraction: float | None
    """Share of the steps that it ended last."""
    own_s: float | None = None
    """Traced step without communication: what it does itself; None without a trace."""
    wait_s: float | None = None
    """Its communication beyond that of the process with least: waiting for others."""
    behind_s: float | None = None
    """Own time beyond the median of the other processes' in the same steps."""
    low_s: float | None = None
    high_s: float | None = None
    verdict: RankVerdict = "inconclusive"


@dataclass(frozen=True, kw_only=True)
class RankComparison:
    """The processes of one run; the slow one named where that is sure."""

    run: str
    rows: tuple[RankRow, ...]
    skew_s: float | None
    """Median over the steps of last end − first end."""
    skew_fraction: float | None
    """The same of the median step."""
    slow: int | None
    """The rank that the others wait for; None where none is surely behind."""
    waited_s: float | None
    """Mean wait of the others for it, in seconds of a step."""
    notes: tuple[str, ...] = ()


def compare_ranks(
    run: str,
    steps: Mapping[int, pl.DataFrame],
    places: Mapping[int, str],
    layers: Sequence[RankLayers],
    *,
    margin: float,
) -> RankComparison:
    """`steps` by rank; `layers` of those that were traced.

    A process is slow where its own time is surely above the median of the others' in the same
    traced steps, by more than the margin of a step; corrected for the number of processes.
    """
    require_scipy()
    ends = _ends(steps)
    first = {step: min(told.values()) for step, told in ends.items()}
    last = {step: max(told, key=lambda rank: told[rank]) for step, told in ends.items()}
    own = {rank.rank: _own_by_step(rank) for rank in layers}
    talk = {rank.rank: rank.parts.get("communication", 0.0) for rank in layers}
    least = min(talk.values(), default=0.0)
    behind = {rank: _behind(rank, own) for rank in own}
    judged = _judge(behind, own, margin)
    rows = []
    for rank in sorted(steps):
        late = [told[rank] - first[step] for step, told in ends.items()]
        median = steps[rank]["step_s"].slice(find_warmup(steps[rank]).steps).median()
        traced = rank in own
        low_s, high_s, verdict = judged.get(rank, _UNJUDGED)
        rows.append(
            RankRow(
                rank=rank,
                place=places.get(rank, "–"),
                step_s=median if isinstance(median, float) else None,
                late_s=statistics.median(late) if late else None,
                last_fraction=sum(who == rank for who in last.values()) / len(last)
                if last
                else None,
                own_s=_mean(list(own[rank].values())) if traced else None,
                wait_s=talk[rank] - least if traced else None,
                behind_s=_mean(behind[rank]) if behind.get(rank) else None,
                low_s=low_s,
                high_s=high_s,
                verdict=verdict,
            )
        )
    return _summed(run, rows, ends, own)


def _ends(steps: Mapping[int, pl.DataFrame]) -> dict[int, dict[int, float]]:
    """When each process ended each step that all of them have, warm-up left out."""
    told: dict[int, dict[int, float]] = {}
    for rank, frame in steps.items():
        warm = frame.sort("start_s").slice(find_warmup(frame).steps)
        for step, end_s in warm.select("step", "end_s").drop_nulls().iter_rows():
            told.setdefault(step, {})[rank] = end_s
    return {step: found for step, found in sorted(told.items()) if len(found) == len(steps)}


def _own_by_step(rank: RankLayers) -> dict[int, float]:
    """Seconds of each traced step without communication, corrected to untraced ones."""
    import polars as pl

    own = rank.rows.filter(pl.col("kind") != "communication")
    return dict(own.group_by("step").agg(pl.col("time_s").sum()).sort("step").iter_rows())


def _behind(rank: int, own: Mapping[int, Mapping[int, float]]) -> list[float]:
    """How far a process is behind the median of the others, step by step."""
    others = [times for other, times in own.items() if other != rank]
    common = [step for step in own[rank] if others and all(step in times for times in others)]
    return [own[rank][s] - statistics.median(times[s] for times in others) for s in common]


def _judge(
    behind: Mapping[int, Sequence[float]], own: Mapping[int, Mapping[int, float]], margin: float
) -> dict[int, Judged]:
    found = {
        rank: contrast
        for rank, gaps in behind.items()
        if len(gaps) >= _FEWEST_STEPS
        and (contrast := mean_difference([([gap], [0.0]) for gap in gaps])) is not None
    }
    levels = holm_levels([contrast.p_value for contrast in found.values()], CHANCE)
    told: dict[int, Judged] = {}
    for (rank, contrast), level in zip(found.items(), levels, strict=True):
        low_s, high_s = contrast.bounds(level)
        near_s = margin * _mean(list(own[rank].values()))
        verdict: RankVerdict = "inconclusive"
        if low_s > 0 and high_s > near_s:
            verdict = "slow"
        elif high_s <= near_s:
            verdict = "even"
        told[rank] = low_s, high_s, verdict
    return told


def _summed(
    run: str,
    rows: Sequence[RankRow],
    ends: Mapping[int, Mapping[int, float]],
    own: Mapping[int, Mapping[int, float]],
) -> RankComparison:
    gaps = [max(told.values()) - min(told.values()) for told in ends.values()]
    skew_s = statistics.median(gaps) if gaps else None
    step_s = statistics.median([row.step_s for row in rows if row.step_s] or [math.nan])
    behind = [row for row in rows if row.verdict == "slow"]
    slow = max(behind, key=lambda row: row.behind_s or 0.0, default=None)
    waits = [r.wait_s for r in rows if slow is not None and r is not slow and r.wait_s is not None]
    notes = ["ends of steps are by one machine's clock, as all processes of a run are"]
    if not own:
        notes.append("no traced layers: who waits for whom is not known; run with --layers")
    return RankComparison(
        run=run,
        rows=tuple(rows),
        skew_s=skew_s,
        skew_fraction=skew_s / step_s if skew_s is not None and step_s > 0 else None,
        slow=None if slow is None else slow.rank,
        waited_s=_mean(waits) if waits else None,
        notes=tuple(notes),
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
