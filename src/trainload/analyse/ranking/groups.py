"""Runs sorted into contests: equal in everything but the factor that is ranked.

Decides which facts make a contest, and which cells are missing; compares nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Literal

from trainload.analyse.study.figures import told_facts
from trainload.analyse.study.tidy import Measured, PlannedCell, level_text
from trainload.errors import UsageError

FIRST = ("model", "setting")
"""What makes a contest whether it differs or not, in this order."""
_NEVER = ("framework_version", "script.sha256", "script.masked")
"""Facts that follow from others or are no choice of whoever ran it."""
_MOST_GRID = 10_000
_TAKEN = frozenset((
    "metric", "standing", "best", "next", "value", "next_value", "difference",
    "difference_fraction", "low_fraction", "high_fraction", "runs", "next_runs", "undecided",
    "absent", "doubtful", "n", "median", "origin", "reason", "run", "source", "energy_wh",
    "power_times_time_wh", "contradicts", "over", "on_front", "beaten_by", "level",
))  # fmt: skip
"""Columns of the tables: a fact of such a name is called `name_level` there."""

Levels = tuple[str, ...]
Origin = Literal["measured", "imported", "measured and imported"]


@dataclass(frozen=True, kw_only=True)
class RankedRun:
    """A run with the text of each fact and level; `reason` says why it does not count."""

    run: str
    levels: Mapping[str, str]
    metrics: Mapping[str, float]
    factors: tuple[str, ...] = ()
    """Of its study; empty where it belongs to none."""
    given: frozenset[str] = frozenset()
    energy_source: str | None = None
    imported: bool = False
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Contests by their levels of `within`; in each the runs that count by level of `by`."""

    by: str
    within: tuple[str, ...]
    levels: tuple[str, ...]
    """Of `by`, in the order they come."""
    contests: Mapping[Levels, Mapping[str, Sequence[RankedRun]]]
    reasons: Mapping[tuple[Levels, str], str]
    """Why a cell has no run that counts."""
    notes: tuple[str, ...]

    def values(self, contest: Levels, level: str, metric: str) -> list[float]:
        """What the runs of one cell tell of a metric."""
        runs = self.contests[contest].get(level, ())
        return [run.metrics[metric] for run in runs if metric in run.metrics]

    def median(self, contest: Levels, level: str, metric: str) -> float | None:
        """The value of a cell: the median of its repetitions; None without any."""
        values = self.values(contest, level, metric)
        return statistics.median(values) if values else None

    def origin(self, contest: Levels, level: str) -> Origin | None:
        """Whether the runs of a cell were measured or imported; None without any."""
        found = {run.imported for run in self.contests[contest].get(level, ())}
        if len(found) == 2:
            return "measured and imported"
        return None if not found else "imported" if True in found else "measured"


def as_ranked(run: Measured) -> RankedRun | None:
    """A run as the ranking takes it; None where it cannot be read at all."""
    figures = run.figures
    if figures is None:
        return None
    return RankedRun(
        run=run.run,
        levels={_free(name): level_text(value) for name, value in told_facts(figures).items()},
        metrics=figures.metrics,
        factors=tuple(map(_free, figures.factors)),
        given=frozenset(figures.given),
        energy_source=figures.energy_source,
        imported=figures.imported is not None,
        reason=run.reason,
    )


def group_runs(
    runs: Sequence[RankedRun],
    planned: Sequence[PlannedCell] = (),
    *,
    by: str,
    within: Sequence[str] | None = None,
) -> Groups:
    """The contests of some runs; UsageError where nothing can be ranked by that factor.

    Without `within` a contest is equal in the other factors of the runs' study; without a study in
    model, setting, and whatever else differs and is not tied to the level that is ranked.
    """
    levels = tuple(dict.fromkeys(run.levels[by] for run in runs if by in run.levels))
    if len(levels) < 2:
        raise UsageError(_no_contest(runs, by, levels))
    notes: list[str] = []
    chosen = _choose_within(runs, by, levels, notes) if within is None else tuple(within)
    known = {name for run in runs for name in run.levels}
    for name in () if within is None else chosen:
        if name == by or name not in known:
            raise UsageError(
                f"--within {name}: {'it is ranked' if name == by else 'no run tells it'}"
            )
    if within is not None:
        notes += _pooled(runs, by, chosen)
    contests: dict[Levels, dict[str, list[RankedRun]]] = {}
    reasons: dict[tuple[Levels, str], str] = {}
    of_study = all(run.factors for run in runs)
    for cell in planned if of_study else ():
        told = {_free(name): level_text(value) for name, value in cell.factors.items()}
        if by in told:
            key = tuple(told.get(name, "–") for name in chosen)
            contests.setdefault(key, {})
            reasons[key, told[by]] = cell.reason or "never measured"
    for run in runs:
        if by not in run.levels:
            notes.append(f"{run.run} tells no {by}; left out")
            continue
        key = tuple(run.levels.get(name, "–") for name in chosen)
        cells = contests.setdefault(key, {})
        if run.reason is None:
            cells.setdefault(run.levels[by], []).append(run)
        else:
            reasons[key, run.levels[by]] = run.reason
    if not planned or not of_study:
        _add_grid(contests, chosen)
    return Groups(
        by=by,
        within=chosen,
        levels=levels,
        contests=contests,
        reasons=reasons,
        notes=tuple(dict.fromkeys(notes)),
    )


def _free(name: str) -> str:
    return f"{name}_level" if name in _TAKEN else name


def _no_contest(runs: Sequence[RankedRun], by: str, levels: Sequence[str]) -> str:
    told = {name: {run.levels.get(name) for run in runs} for run in runs for name in run.levels}
    differ = [name for name, values in told.items() if len(values) > 1 and name not in _NEVER]
    which = f"every run has {by}={levels[0]}" if levels else f"no run tells {by}"
    listed = ", ".join(differ[:12]) or "nothing"
    return f"{which}, so there is nothing to rank; between the runs differ: {listed}; see --by"


def _choose_within(
    runs: Sequence[RankedRun], by: str, levels: Sequence[str], notes: list[str]
) -> tuple[str, ...]:
    if all(run.factors for run in runs):
        # What else differs follows from the levels.
        names = dict.fromkeys(name for run in runs for name in run.factors)
        order = sorted(names, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
        return tuple(name for name in order if name != by)
    chosen = [name for name in FIRST if name != by and any(name in run.levels for run in runs)]
    every = dict.fromkeys(name for run in runs for name in run.levels)
    tied = []
    for name in every:
        if name in (by, *chosen, *_NEVER) or len({run.levels.get(name) for run in runs}) < 2:
            continue
        seen = [{r.levels.get(name) for r in runs if r.levels.get(by) == level} for level in levels]
        if any(one & other for at, one in enumerate(seen) for other in seen[at + 1 :]):
            chosen.append(name)
        else:
            tied.append(name)
    if tied:
        listed = ", ".join(tied[:8])
        notes.append(f"{listed} differs with {by} throughout: a difference may be theirs")
    return tuple(chosen)


def _pooled(runs: Sequence[RankedRun], by: str, within: Sequence[str]) -> list[str]:
    """Facts that differ between runs of one cell: those are no repetitions of each other."""
    cells: dict[Levels, list[RankedRun]] = {}
    for run in runs:
        cells.setdefault(tuple(run.levels.get(n, "–") for n in (by, *within)), []).append(run)
    every = dict.fromkeys(name for run in runs for name in run.levels)
    mixed = [
        name
        for name in every
        if name not in (by, *within, *_NEVER)
        and any(len({run.levels.get(name) for run in cell}) > 1 for cell in cells.values())
    ]
    return [f"runs of one cell differ in {', '.join(mixed[:8])}"] if mixed else []


def _add_grid(contests: dict[Levels, dict[str, list[RankedRun]]], within: Sequence[str]) -> None:
    """Contests without any run, where the others are at least half of a full grid."""
    axes = [list(dict.fromkeys(key[at] for key in contests)) for at in range(len(within))]
    whole = prod(map(len, axes))
    if whole <= _MOST_GRID and 2 * len(contests) >= whole:
        for key in product(*axes):
            contests.setdefault(key, {})
