"""Sides against the left-most: metrics, facts and layers of each put together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from trainload.analyse.compare.cells import pair_cells
from trainload.analyse.compare.facts import compare_configuration, compare_environment
from trainload.analyse.compare.layers import compare_layers
from trainload.analyse.compare.metrics import compare_metrics
from trainload.analyse.compare.spread import Known
from trainload.analyse.compare.values import MARGIN, Comparison, Side
from trainload.analyse.study.contrasts import require_scipy
from trainload.errors import UsageError

_MOST = 3
"""Names that a note lists."""


def compare_sides(
    a: Side, b: Side, known: Known, *, margin: float = MARGIN, first: Collection[str] = ()
) -> Comparison:
    """B against the reference A; UsageError where no cell of one is in the other."""
    require_scipy()
    pairs, unpaired = pair_cells(a, b)
    if not pairs:
        raise UsageError(
            f"{a.name} and {b.name} have no workload in common ({_listed(unpaired)}); "
            "name one cell of each, such as PLACE:batch_size=64"
        )
    used = {name: frozenset(r.name for p in pairs for r in getattr(p, name)) for name in "ab"}
    a = replace(a, runs=tuple(run for run in a.runs if run.name in used["a"]))
    b = replace(b, runs=tuple(run for run in b.runs if run.name in used["b"]))
    metrics = compare_metrics(pairs, known, margin=margin, first=first)
    explained = compare_layers(pairs, metrics[0], margin=margin)
    notes = explained.notes
    if unpaired:
        notes = (*notes, f"{len(unpaired)} cells are on one side alone: {_listed(unpaired)}")
    for side in (a, b):
        if side.left_out:
            notes = (*notes, f"{side.name}: left out {_listed(side.left_out)}")
    return Comparison(
        a=a.name,
        b=b.name,
        runs_a=len(a.runs),
        runs_b=len(b.runs),
        cells=len(pairs),
        margin=margin,
        metrics=metrics,
        configuration=compare_configuration(a, b),
        environment=compare_environment(a, b),
        layers=explained.rows,
        shared_fraction=explained.shared_fraction,
        notes=notes,
    )


def _listed(names: Collection[str]) -> str:
    shown = list(names)[:_MOST]
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(shown) + more
