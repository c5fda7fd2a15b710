"""Which operation of a layer changed most; takes times by name, names them beside the rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trainload.analyse.attribution.operations import Operations
from trainload.analyse.compare.layers import key_of
from trainload.analyse.compare.values import Comparison, PartKey

MOST_ROWS = 10
"""Parts whose operations are named."""
MOST_RUNS = 2
"""Runs of a side whose traces are read again for them."""
Named = Mapping[PartKey, Mapping[str, float]]


def by_part(found: Operations) -> dict[PartKey, dict[str, float]]:
    """Operations under the names that comparisons use."""
    several = len({part.root for part in found if part.root is not None}) > 1
    named: dict[PartKey, dict[str, float]] = {}
    for part, times in found.items():
        here = named.setdefault(key_of(*part, several=several), {})
        for name, time_s in times.items():
            here[name] = here.get(name, 0.0) + time_s
    return named


def name_operations(found: Comparison, a: Sequence[Named], b: Sequence[Named]) -> Comparison:
    """The comparison with the operation that changed most in each of its first parts."""
    a, b = [run for run in a if run], [run for run in b if run]
    if not a or not b:
        return found  # what one framework does not name has not vanished
    rows = list(found.layers)
    for at, row in enumerate(rows[:MOST_ROWS]):
        key = PartKey(row.path, row.phase)
        names = dict.fromkeys(name for run in (*a, *b) for name in run.get(key, {}))
        changes = {name: _mean(b, key, name) - _mean(a, key, name) for name in names}
        # An operation that became faster does not explain a part that became slower.
        aligned = {n: c for n, c in changes.items() if c * row.difference_s > 0}
        if aligned:
            most = max(aligned, key=lambda name: abs(aligned[name]))
            rows[at] = replace(row, operation=most, operation_s=aligned[most])
    return replace(found, layers=tuple(rows))


def _mean(runs: Sequence[Named], key: PartKey, name: str) -> float:
    return math.fsum(run.get(key, {}).get(name, 0.0) for run in runs) / len(runs)
