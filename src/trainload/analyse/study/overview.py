"""A study at a glance: which metrics matter, the three findings, and how the levels compare.

Stands on the tables of this room; words and drawing are the report's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from trainload.analyse.study.best import best_table, higher_is_better
from trainload.analyse.study.cells import cell_table
from trainload.analyse.study.effects import effect_table
from trainload.analyse.study.tidy import TidyStudy

if TYPE_CHECKING:
    import polars as pl

MOST_FINDINGS = 3
_TIMES = ("step_s", "training_s", "duration_s")
_BESIDE = (
    ("training_s",),
    ("energy_j",),
    ("best_accuracy", "validation_accuracy"),
    ("validation_f1_weighted",),
    ("peak_gpu_bytes", "peak_allocated_bytes"),
    ("peak_host_bytes",),
)
"""Metrics of the overview beside the time of the work: of each group the first that runs tell."""

Kind = Literal["best", "effect", "undecided"]
Change = Literal["better", "worse", "unchanged", "missing"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that the study shows, or cannot show."""

    kind: Kind
    metric: str
    also: tuple[str, ...] = ()
    """undecided: further metrics of which it is true."""
    cell: str | None = None
    """best: the cell with the best median."""
    value: float | None = None
    """best: that median."""
    tied: int = 0
    """best: cells that cannot be told from it."""
    others: int = 0
    """best: all other cells. undecided: comparisons of which none is decided."""
    factor: str | None = None
    level: str | None = None
    base: str | None = None
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    ratio: bool = False
    """Whether the effect is a ratio minus one; else a difference in the metric's unit."""
    n: int = 0
    """best: runs of the cell. effect: pairs of cells compared. undecided: most runs of a cell."""


@dataclass(frozen=True, kw_only=True)
class StudyOverview:
    """What the page of a study begins with."""

    metrics: tuple[str, ...]
    """Those that are told of, the leading one first; none where no run counts."""
    findings: tuple[Finding, ...]
    cells: pl.DataFrame
    """As `cell_table`, of these metrics."""
    best: Mapping[str, pl.DataFrame]
    """`best_table` by metric."""
    effects: Mapping[str, pl.DataFrame]
    """`effect_table` by metric."""

    def counts(self, metric: str) -> dict[Change, int]:
        """How many levels are better, worse or not told from the base, or cannot be judged."""
        found: dict[Change, int] = {"better": 0, "worse": 0, "unchanged": 0, "missing": 0}
        for row in self.effects[metric].iter_rows(named=True):
            found[change_of(row, metric)] += 1
        return found


def change_of(row: Mapping[str, Any], metric: str) -> Change:
    """What a row of an effect table says of its level, in terms of good and bad."""
    if row["verdict"] == "says nothing":
        return "missing"
    if row["verdict"] != "differs":
        return "unchanged"
    return "better" if (row["effect"] > 0) == higher_is_better(metric) else "worse"


def overview_of(study: TidyStudy) -> StudyOverview:
    """The overview of a study's runs; without a run that counts it is empty, and says nothing."""
    metrics = _metrics(study)
    best = {metric: best_table(study, metric) for metric in metrics}
    effects = {metric: effect_table(study, metric) for metric in metrics}
    return StudyOverview(
        metrics=metrics,
        findings=tuple(_findings(metrics, best, effects))[:MOST_FINDINGS],
        cells=cell_table(study, metrics),
        best=best,
        effects=effects,
    )


def _metrics(study: TidyStudy) -> tuple[str, ...]:
    counted = study.counted
    known = {m for m in study.metrics if counted[m].count()}
    # A larger batch takes longer by itself: what it brings is told by the examples it trains.
    sizes = counted["batch_size"].n_unique() if "batch_size" in counted.columns else 1
    first = ("examples_per_s", *_TIMES) if sizes > 1 else _TIMES
    leading = [m for m in first if m in known][:1]
    beside = [next((m for m in group if m in known), None) for group in _BESIDE]
    return tuple(dict.fromkeys([*leading, *(m for m in beside if m is not None)]))


def _findings(
    metrics: Sequence[str],
    best: Mapping[str, pl.DataFrame],
    effects: Mapping[str, pl.DataFrame],
) -> Iterator[Finding]:
    if not metrics:
        return
    leading = metrics[0]
    table = best[leading]
    if table.height > 1:
        yield _best(leading, table)
    shown = [f for metric in metrics for f in _shown(metric, effects[metric])]
    yield from _ordered(shown, leading)
    silent = [m for m in metrics if not any(f.metric == m for f in shown)]
    compared = sum(effects[metric].height for metric in silent)
    if compared:
        most = max(max(best[metric]["n"].to_list(), default=0) for metric in silent)
        yield Finding(
            kind="undecided", metric=silent[0], also=tuple(silent[1:]), others=compared, n=most
        )


def _ordered(shown: Sequence[Finding], leading: str) -> Iterator[Finding]:
    """The largest effect on the leading metric, then that of each other factor, then the rest."""
    heaviest = sorted(shown, key=_weight, reverse=True)
    heaviest.sort(key=lambda finding: finding.metric != leading)
    factors: set[str | None] = set()
    later = []
    for finding in heaviest:
        if finding.factor in factors:
            later.append(finding)
        else:
            factors.add(finding.factor)
            yield finding
    seen: set[tuple[str, str | None]] = set()
    for finding in later:
        if (finding.metric, finding.factor) not in seen and finding.metric != leading:
            seen.add((finding.metric, finding.factor))
            yield finding


def _best(metric: str, table: pl.DataFrame) -> Finding:
    first = table.row(0, named=True)
    standings = table["standing"].to_list()[1:]
    return Finding(
        kind="best",
        metric=metric,
        cell=first["cell"],
        value=first["median"],
        n=first["n"],
        tied=sum(standing != "worse" for standing in standings),
        others=len(standings),
    )


def _shown(metric: str, table: pl.DataFrame) -> list[Finding]:
    return [
        Finding(
            kind="effect",
            metric=metric,
            factor=row["factor"],
            level=row["level"],
            base=row["base"],
            effect=row["effect"],
            low=row["low"],
            high=row["high"],
            ratio=row["scale"] == "ratio - 1",
            n=row["pairs"],
        )
        for row in table.filter(table["verdict"] == "differs").iter_rows(named=True)
    ]


def _weight(finding: Finding) -> float:
    """How much a finding changes, so that halving and doubling weigh the same."""
    effect = finding.effect or 0.0
    return abs(math.log1p(max(effect, -0.999999))) if finding.ratio else abs(effect)
