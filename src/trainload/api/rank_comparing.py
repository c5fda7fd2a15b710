"""The processes of one run against each other: its tables read, and analyse's answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainload.api.loading import Run, load
from trainload.errors import UsageError
from trainload.hardware.settings import render_ranges

if TYPE_CHECKING:
    from trainload.analyse.compare.ranks import RankComparison


def compare_ranks(run: str | Path | Run, *, margin: float | None = None) -> RankComparison:
    """Skew of the steps of one run's processes, and the one that the others wait for.

    UsageError where one process trained alone.
    """
    from trainload.analyse.compare import MARGIN
    from trainload.analyse.compare.ranks import compare_ranks as analyse_ranks

    found = run if isinstance(run, Run) else load(run)
    count = found.manifest.processes or 1
    if count < 2:
        raise UsageError(f"{found.path} ran in one process; there are no ranks to compare")
    steps = {rank: found.steps_of(rank) for rank in range(count)}
    told = {rank: frame for rank, frame in steps.items() if not frame.is_empty()}
    if len(told) < 2:
        raise UsageError(f"{found.path}: {len(told)} of {count} processes told of steps")
    layers = found.attribution
    return analyse_ranks(
        found.path.name,
        told,
        {rank: _place(found, rank) for rank in told},
        () if layers is None else layers.ranks,
        margin=MARGIN if margin is None else margin,
    )


def _place(run: Run, rank: int) -> str:
    """Where a process ran, in its own words: device and cores."""
    ranks = run.manifest.ranks
    obtained = ranks[rank].obtained if rank < len(ranks) else None
    if obtained is None:
        return "–"
    names = [one.name for one in obtained.accelerators or () if one.name]
    cores = f"cores {render_ranges(obtained.cores)}" if obtained.cores else None
    return ", ".join(filter(None, (obtained.device, *names, cores))) or "–"
