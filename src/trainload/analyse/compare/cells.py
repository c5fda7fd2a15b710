"""Which runs of two sides stand against each other: cells of equal workload, in pairs.

Takes sides, gives pairs of runs; knows no metric.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainload.analyse.compare.values import ComparedRun, Side
from trainload.analyse.study.tidy import level_text
from trainload.record.figures import RunFigures

CONTENT = "script.sha256"
_NOT_IDENTITY = frozenset({CONTENT, "framework_version", "script.masked"})
"""Facts that may change between two runs of one workload: its code and its versions."""


@dataclass(frozen=True, kw_only=True)
class CellPair:
    """The runs of one cell on both sides."""

    title: str
    a: tuple[ComparedRun, ...]
    b: tuple[ComparedRun, ...]


def identity_of(figures: RunFigures) -> str:
    """Equal for runs of the same workload in the same setting, whatever its code's version."""
    told = {**figures.factors, **figures.facts}
    kept = {name: level_text(value) for name, value in told.items() if name not in _NOT_IDENTITY}
    return json.dumps(kept, sort_keys=True)


def pair_cells(a: Side, b: Side) -> tuple[list[CellPair], list[str]]:
    """Cells that both sides have, and the titles of those that only one has.

    Inside a side, runs are told apart by whatever differs there. A side without differences is one
    cell, and two such sides stand against each other whatever they are.
    """
    names = sorted(_varying(a.runs) | _varying(b.runs))
    if not names:
        return [CellPair(title="all", a=a.runs, b=b.runs)], []
    left, right = _by_levels(a.runs, names), _by_levels(b.runs, names)
    pairs = [CellPair(title=key, a=left[key], b=right[key]) for key in left if key in right]
    return pairs, [key for key in (*left, *right) if (key in left) != (key in right)]


def _varying(runs: Iterable[ComparedRun]) -> set[str]:
    """Names of the facts that differ between some runs."""
    told = [_told(run) for run in runs]
    names = {name for facts in told for name in facts} - _NOT_IDENTITY
    return {n for n in names if len({level_text(facts.get(n)) for facts in told}) > 1}


def _told(run: ComparedRun) -> Mapping[str, Any]:
    return {**run.figures.factors, **run.figures.facts}


def _by_levels(
    runs: Sequence[ComparedRun], names: Sequence[str]
) -> dict[str, tuple[ComparedRun, ...]]:
    found: dict[str, tuple[ComparedRun, ...]] = {}
    for run in runs:
        told = _told(run)
        title = " ".join(f"{name}={level_text(told.get(name))}" for name in names)
        found[title] = (*found.get(title, ()), run)
    return found
