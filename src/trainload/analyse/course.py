"""What a training cost together with the runs that it continues; takes runs and opens no file."""

from __future__ import annotations

from dataclasses import dataclass

from trainload.analyse.columns import (
    is_counter,
    metered_columns,
    metered_quantities,
    summarise_columns,
)
from trainload.analyse.energy import summarise_energy
from trainload.analyse.series import training_span
from trainload.record import Run


@dataclass(frozen=True, kw_only=True)
class Course:
    """A run and all before it that it continues, each as a whole; a sum is None if one lacks it."""

    runs: int
    duration_s: float | None
    training_s: float
    steps: int
    energy_j: float | None
    """By the source that the latest run is told by."""
    energy_source: str | None
    missing: str | None
    """A run before that is no longer there, where the sums begin only after it."""


def summarise_course(run: Run) -> Course | None:
    """The sums over a run and those before it; None for a run that continues nothing."""
    if run.manifest.continues is None:
        return None
    runs = [run, *run.before]
    first = runs[-1].manifest.continues
    missing = None if first is None else first.run_id or first.path or "a checkpoint"
    durations = [_duration_s(one) for one in runs]
    told = [_energy_j(one) for one in runs]
    source = next(iter(told[0]), None)
    energies = [None if source is None else one.get(source) for one in told]
    return Course(
        runs=len(runs),
        duration_s=_sum(durations),
        training_s=sum(float(one.steps["step_s"].sum()) for one in runs),
        steps=sum(one.steps.height for one in runs),
        energy_j=_sum(energies),
        energy_source=source,
        missing=missing,
    )


def _duration_s(run: Run) -> float | None:
    clock = run.manifest.clock
    return None if clock is None or clock.end_s is None else clock.end_s - clock.start_s


def _energy_j(run: Run) -> dict[str, float]:
    """Joules over the training by source, in the order of the summary."""
    quantities = metered_quantities(run.manifest.meters)
    samples = run.samples.drop_nulls("t_s").sort("t_s")
    counters = [c for c in metered_columns(samples) if is_counter(c, quantities)]
    span = training_span(run.steps)
    _, amounts = summarise_columns(samples, counters, span)
    found = summarise_energy(samples, amounts, quantities, span)
    return {one.source: one.energy_j for one in found if one.energy_j is not None}


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
