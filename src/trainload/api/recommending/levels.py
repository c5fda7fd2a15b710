"""Two levels of runs that are equal in all else, compared by the verdicts of `analyse`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainload.recommend.here import Difference, Trial

if TYPE_CHECKING:
    import polars as pl

    from trainload.analyse.study import TidyStudy

_METRICS = ("examples_per_s", "step_s", "duration_s")
"""The first that every counted run tells is compared."""


def choose_metric(found: TidyStudy) -> str | None:
    """The first of the figures that all counted runs tell; None where there is none."""
    counted = found.counted
    return next(
        (
            name
            for name in _METRICS
            if counted.height and name in counted.columns and counted[name].null_count() == 0
        ),
        None,
    )


def compare_levels(found: TidyStudy, trial: Trial, metric: str) -> Difference | None:
    """The other way's rate against the base's; None where too few runs tell.

    The verdicts of all factors of the table hold together.
    """
    from trainload.analyse.study import effect_table

    table = effect_table(found, metric, {trial.factor: trial.base.label})
    rows = table.filter(
        (table["factor"] == trial.factor) & (table["level"] == trial.other.label)
    ).to_dicts()
    if not rows or rows[0]["effect"] is None:
        return None
    row = rows[0]
    rate, low, high = (row[name] for name in ("effect", "low", "high"))
    if metric != "examples_per_s":  # a time: the shorter, the faster
        rate, low, high = (1 / (1 + max(one, -0.999999)) - 1 for one in (rate, high, low))
        if trial.factor == "batch_size":  # a step of more examples
            times = trial.other.sets["batch_size"] / trial.base.sets["batch_size"]
            rate, low, high = ((1 + one) * times - 1 for one in (rate, low, high))
            row["verdict"] = "differs" if low > 0 or high < 0 else row["verdict"]
    return Difference(
        rate=rate,
        low=low,
        high=high,
        shown=row["verdict"] == "differs" and (low > 0 or high < 0),
        runs=_runs(found.counted, trial, found.factors),
    )


def _runs(counted: pl.DataFrame, trial: Trial, factors: Sequence[str]) -> int:
    """Runs of cells that are equal in every other factor."""
    others = [name for name in factors if name != trial.factor]
    seen: dict[tuple[str, ...], dict[str, int]] = {}
    for level, *rest in counted.select(trial.factor, *others).iter_rows():
        counts = seen.setdefault(tuple(rest), {})
        counts[level] = counts.get(level, 0) + 1
    labels = (trial.base.label, trial.other.label)
    return sum(
        counts[label]
        for counts in seen.values()
        if all(map(counts.get, labels))
        for label in labels
    )
