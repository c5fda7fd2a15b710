"""How much of study L's effect of batch size was its own monitor inside the training loop.

Takes the runs of the study `in-loop-monitor`; the same training with and without the monitor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainload.analyse.reproduce.evidence import Evidence
from trainload.analyse.reproduce.readings import Reading, read_change
from trainload.analyse.study.contrasts import require_scipy
from trainload.analyse.study.effects import CHANCE

METRIC = "training_s"
SMALL, LARGE = "64", "512"
SIZES = (SMALL, "128", "256", LARGE)
PLAIN, INSIDE = "none", "in-loop"


@dataclass(frozen=True, kw_only=True)
class Observed:
    """The observer's part in the effect of batch size."""

    inflations: tuple[tuple[str, Reading], ...] = ()
    """Batch size, and the time with the monitor inside the loop over that without."""
    plain: Reading = Reading()
    """Time at batch 64 over that at 512, nobody looking."""
    watched: Reading = Reading()
    """The same with the monitor inside the loop."""
    share: Reading = Reading()
    """Of the watched effect, on a logarithmic scale, what the monitor made."""
    reason: str | None = None
    """Why the share cannot be told; None where it can."""


def observe(evidence: Evidence) -> Observed:
    """The monitor's effect at each batch size, and its share of the effect of batch size.

    The share's bounds come from the intervals of both effects, which hold together at 95 %.
    """
    require_scipy()
    inflations = tuple(
        (size, read_change(evidence, _cell(size, INSIDE), _cell(size, PLAIN), METRIC, CHANCE))
        for size in SIZES
    )
    plain, watched = (_effect(evidence, monitor, CHANCE) for monitor in (PLAIN, INSIDE))
    share = _share(*(_effect(evidence, monitor, CHANCE / 2) for monitor in (PLAIN, INSIDE)))
    return Observed(
        inflations=inflations, plain=plain, watched=watched, share=share, reason=share.reason
    )


def _effect(evidence: Evidence, monitor: str, chance: float) -> Reading:
    return read_change(evidence, _cell(SMALL, monitor), _cell(LARGE, monitor), METRIC, chance)


def _cell(size: str, monitor: str) -> dict[str, str]:
    return {"batch_size": size, "monitor": monitor}


def _share(plain: Reading, watched: Reading) -> Reading:
    for one in (plain, watched):
        if one.low is None or one.high is None or one.value is None:
            return Reading(reason=one.reason)
    assert plain.low and plain.high and plain.value
    assert watched.low and watched.high and watched.value
    if watched.low <= 1:
        return Reading(reason="the batch size shows no effect under the monitor")
    corners = [
        1 - math.log(p) / math.log(w)
        for p in (plain.low, plain.high)
        for w in (watched.low, watched.high)
    ]
    return Reading(
        value=1 - math.log(plain.value) / math.log(watched.value),
        low=min(corners),
        high=max(corners),
        runs=plain.runs + watched.runs,
    )
