"""The whole ranking as frames: the best of each contest, wins, cells, missing, energy, fronts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainload.analyse.ranking.energy import check_energy
from trainload.analyse.ranking.groups import Groups, Levels, as_ranked, group_runs
from trainload.analyse.ranking.pareto import EVERYTHING, pareto_fronts
from trainload.analyse.ranking.verdicts import Verdict, judge_contests
from trainload.analyse.study.contrasts import require_scipy
from trainload.analyse.study.tidy import Measured, PlannedCell
from trainload.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

METRICS = (
    "duration_s", "epoch_s", "mean_power_w", "energy_j", "train_loss", "validation_loss",
    "mean_loss", "validation_accuracy", "mean_validation_accuracy", "validation_top5_accuracy",
    "mean_top5_accuracy",
)  # fmt: skip
"""What is ranked where nothing is said, as far as runs tell it."""
_ELSE = ("step_s", "examples_per_s")
_COUNTED = {"decided": "decided", "not decided": "not_decided", "by mean only": "by_mean_only"}
_WINS = ("contests", "wins", "decided", "by_mean_only", "not_decided", "ties", "no_contest")


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Which level of a factor is best, as frames; the columns before the figures are the levels."""

    by: str
    within: tuple[str, ...]
    levels: tuple[str, ...]
    metrics: tuple[str, ...]
    best: pl.DataFrame
    """A row for each contest and metric: the best, the next, difference, interval, standing."""
    wins: pl.DataFrame
    """How often each level is best: over all, and over each level of what makes the contests."""
    cells: pl.DataFrame
    """A row for each cell and metric: median, count, where from."""
    missing: pl.DataFrame
    """Cells without a run that counts, and metrics that a cell's runs do not tell."""
    energy: pl.DataFrame
    """Energy beside mean power × time, of each run that tells both."""
    pareto: pl.DataFrame
    notes: tuple[str, ...]

    def frames(self) -> dict[str, pl.DataFrame]:
        """The tables by name."""
        names = ("best", "wins", "cells", "missing", "energy", "pareto")
        return {name: getattr(self, name) for name in names}

    def win_counts(self, metric: str) -> dict[str, int]:
        """How many contests each level wins by a metric, however certain."""
        rows = self.wins.filter(metric=metric, over=EVERYTHING).select("level", "wins").rows()
        return {str(level): int(wins) for level, wins in rows}

    def to_json(self) -> dict[str, Any]:
        """The document of `rank --json`."""
        told = {name: frame.to_dicts() for name, frame in self.frames().items()}
        head = {"by": self.by, "within": list(self.within), "metrics": list(self.metrics)}
        return {**head, "levels": list(self.levels), **told, "notes": list(self.notes)}


def rank_runs(
    runs: Sequence[Measured],
    planned: Sequence[PlannedCell] = (),
    *,
    by: str = "framework",
    within: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
) -> Ranking:
    """The ranking of some runs; UsageError where there is nothing to rank."""
    require_scipy()
    ranked = [found for run in runs if (found := as_ranked(run)) is not None]
    groups = group_runs(ranked, planned, by=by, within=within)
    chosen = _choose_metrics(groups, metrics)
    verdicts = {metric: judge_contests(groups, metric) for metric in chosen}
    unread = [f"{run.run}: {run.reason}" for run in runs if run.figures is None]
    origins = {
        groups.origin(contest, level) for contest in groups.contests for level in groups.levels
    }
    mixed = len(origins - {None}) > 1
    notes = (*groups.notes, *unread) + ("measured and imported runs are compared",) * mixed
    return Ranking(
        by=by,
        within=groups.within,
        levels=groups.levels,
        metrics=chosen,
        best=_best_frame(groups, verdicts),
        wins=_wins_frame(groups, verdicts),
        cells=_cells_frame(groups, chosen),
        missing=_missing_frame(groups, chosen),
        energy=_energy_frame(groups),
        pareto=_pareto_frame(groups),
        notes=notes,
    )


def _choose_metrics(groups: Groups, asked: Sequence[str] | None) -> tuple[str, ...]:
    runs = [r for cells in groups.contests.values() for found in cells.values() for r in found]
    told = {name for run in runs for name in run.metrics}
    if not runs:
        raise UsageError("no run of it counts, so there is nothing to rank")
    for name in asked or ():
        if name not in told:
            raise UsageError(f"no run tells {name}; known: {', '.join(sorted(told)[:40])}")
    chosen = tuple(asked or (name for name in METRICS if name in told))
    return chosen or tuple(name for name in _ELSE if name in told) or tuple(sorted(told)[:1])


def _best_frame(groups: Groups, verdicts: Mapping[str, Sequence[Verdict]]) -> pl.DataFrame:
    import polars as pl

    numbers = ("value", "next_value", "difference", "difference_fraction", "low_fraction",
               "high_fraction")  # fmt: skip
    schema: dict[str, Any] = {
        "metric": pl.String,
        **dict.fromkeys(groups.within, pl.String),
        **dict.fromkeys(("standing", "best", "next"), pl.String),
        **dict.fromkeys(numbers, pl.Float64),
        **dict.fromkeys(("runs", "next_runs"), pl.Int64),
        **dict.fromkeys(("undecided", "absent", "doubtful"), pl.String),
    }
    wrong = _contradicting(groups)
    rows = []
    for found in verdicts.values():
        for verdict in found:
            levels = dict(zip(groups.within, verdict.contest, strict=True))
            lists = {n: ", ".join(getattr(verdict, n)) or None for n in ("undecided", "absent")}
            doubtful = wrong.get(verdict.contest) if verdict.metric == "energy_j" else None
            rows.append({**verdict.__dict__, **levels, **lists, "doubtful": doubtful})
    return _frame(rows, schema)


def _contradicting(groups: Groups) -> dict[Levels, str]:
    """Levels of each contest that have an energy which is not power × time."""
    found: dict[Levels, str] = {}
    for contest, cells in groups.contests.items():
        wrong = [
            level
            for level, runs in cells.items()
            if any(check.contradicts for _, check in check_energy(runs))
        ]
        if wrong:
            found[contest] = ", ".join(wrong)
    return found


def _wins_frame(groups: Groups, verdicts: Mapping[str, Sequence[Verdict]]) -> pl.DataFrame:
    import polars as pl

    rows: list[dict[str, Any]] = []
    for metric, found in verdicts.items():
        parts: dict[str, list[Verdict]] = {EVERYTHING: list(found)}
        for at, name in enumerate(groups.within):
            if len({verdict.contest[at] for verdict in found}) > 1:
                for verdict in found:
                    parts.setdefault(f"{name}={verdict.contest[at]}", []).append(verdict)
        for over, mine in parts.items():
            rows += _win_rows(groups, metric, over, mine)
    schema = {**dict.fromkeys(("metric", "over", "level"), pl.String)}
    return _frame(rows, {**schema, **dict.fromkeys(_WINS, pl.Int64)})


def _win_rows(
    groups: Groups, metric: str, over: str, verdicts: Sequence[Verdict]
) -> list[dict[str, Any]]:
    rows = []
    fought = [v for v in verdicts if v.standing not in ("no contest", "missing")]
    for level in groups.levels:
        won = [verdict for verdict in fought if verdict.best == level]
        counts = {column: sum(v.standing == s for v in won) for s, column in _COUNTED.items()}
        rows.append(
            {
                "metric": metric,
                "over": over,
                "level": level,
                "contests": len(fought),
                "wins": len(won),
                **counts,
                "ties": sum(v.standing == "tie" for v in fought),
                "no_contest": len(verdicts) - len(fought),
            }
        )
    return rows


def _cells_frame(groups: Groups, metrics: Sequence[str]) -> pl.DataFrame:
    import polars as pl

    rows = []
    for contest in groups.contests:
        head = dict(zip(groups.within, contest, strict=True))
        for level in groups.levels:
            for metric in metrics:
                values = groups.values(contest, level, metric)
                if values:
                    rows.append(
                        {
                            **head,
                            groups.by: level,
                            "metric": metric,
                            "n": len(values),
                            "median": groups.median(contest, level, metric),
                            "origin": groups.origin(contest, level),
                        }
                    )
    texts = (*groups.within, groups.by, "metric")
    schema: dict[str, Any] = {**dict.fromkeys(texts, pl.String), "n": pl.Int64}
    return _frame(rows, {**schema, "median": pl.Float64, "origin": pl.String})


def _missing_frame(groups: Groups, metrics: Sequence[str]) -> pl.DataFrame:
    import polars as pl

    rows = []
    for contest, cells in groups.contests.items():
        head = dict(zip(groups.within, contest, strict=True))
        for level in groups.levels:
            row = {**head, groups.by: level}
            if level not in cells:
                reason = groups.reasons.get((contest, level), "there is no run of it")
                rows.append({**row, "metric": None, "reason": reason})
                continue
            rows += [
                {**row, "metric": metric, "reason": "its runs do not tell it"}
                for metric in metrics
                if not groups.values(contest, level, metric)
            ]
    return _frame(rows, dict.fromkeys((*groups.within, groups.by, "metric", "reason"), pl.String))


def _energy_frame(groups: Groups) -> pl.DataFrame:
    import polars as pl

    runs = [r for cells in groups.contests.values() for found in cells.values() for r in found]
    rows = [
        {**{name: run.levels.get(name) for name in (*groups.within, groups.by)}, **check.__dict__}
        for run, check in check_energy(runs)
    ]
    schema: dict[str, Any] = {
        **dict.fromkeys((*groups.within, groups.by, "run", "source"), pl.String),
        **dict.fromkeys(("energy_wh", "power_times_time_wh", "difference_fraction"), pl.Float64),
        "contradicts": pl.Boolean,
    }
    return _frame(rows, schema)


def _pareto_frame(groups: Groups) -> pl.DataFrame:
    import polars as pl

    points = pareto_fronts(groups)
    axes = list(points[0].values) if points else []
    rows = [
        {
            "over": point.over,
            **dict(zip(groups.within, point.contest, strict=True)),
            groups.by: point.level,
            **point.values,
            "on_front": point.on_front,
            "beaten_by": point.beaten_by,
        }
        for point in points
    ]
    schema: dict[str, Any] = {
        **dict.fromkeys(("over", *groups.within, groups.by), pl.String),
        **dict.fromkeys(axes, pl.Float64),
        "on_front": pl.Boolean,
        "beaten_by": pl.String,
    }
    return _frame(rows, schema)


def _frame(rows: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> pl.DataFrame:
    import polars as pl

    whole = [{name: row.get(name) for name in schema} for row in rows]
    return pl.DataFrame(whole, schema=dict(schema), orient="row")
