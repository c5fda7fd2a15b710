"""Energies checked against mean power × time: a mismatch is named, never mended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from trainload.analyse.ranking.groups import RankedRun

GIVEN_FRACTION = 0.01
"""A stated energy is arithmetic on other stated figures: rounding alone may differ."""
MEASURED_FRACTION = 0.05
"""A counter or an integral against the mean of the readings, which miss what lies between."""
_WH_J = 3600.0


@dataclass(frozen=True, kw_only=True)
class EnergyCheck:
    """One run whose energy and mean power are both told."""

    run: str
    energy_wh: float
    power_times_time_wh: float
    difference_fraction: float
    """Energy over power × time, minus one."""
    contradicts: bool
    source: str | None
    """What the energy is of; None where its source does not say."""


def check_energy(runs: Iterable[RankedRun]) -> Iterator[tuple[RankedRun, EnergyCheck]]:
    """A check for each run that tells its energy, its mean power and its time."""
    for run in runs:
        told = _told(run)
        if told is None:
            continue
        energy_j, product_j, allowed = told
        off = energy_j / product_j - 1
        yield (
            run,
            EnergyCheck(
                run=run.run,
                energy_wh=energy_j / _WH_J,
                power_times_time_wh=product_j / _WH_J,
                difference_fraction=off,
                contradicts=abs(off) > allowed,
                source=run.energy_source,
            ),
        )


def _told(run: RankedRun) -> tuple[float, float, float] | None:
    """Energy, mean power × time, and how far they may differ; None where one is missing."""
    metrics = run.metrics
    energy_j = metrics.get("energy_j")
    if "energy_j" in run.given:
        power_w, time_s, allowed = "mean_power_w", "duration_s", GIVEN_FRACTION
    else:
        power_w, time_s, allowed = f"{run.energy_source}_power_w", "covered_s", MEASURED_FRACTION
    product_j = metrics.get(power_w, 0.0) * metrics.get(time_s, 0.0)
    if energy_j is None or product_j <= 0:
        return None
    return energy_j, product_j, allowed
