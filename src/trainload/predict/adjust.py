"""A predicted step drawn to what was seen: steps measured here, and past runs of the device.

Pure arithmetic; what was seen is told by the caller, and `why` of the answer says it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainload.predict.transfer import WITHIN, Tier
from trainload.predict.types import LayerPrediction, Ranged, StepPrediction

MEASURED_SPREAD = 0.06
"""Of a step's time from run to run on one device, as for a device with its own calibration."""
_UNLIKE = 0.45
"""How far a processor's steps may mislead about a GPU: as for another maker's device, assumed."""
_PRIOR_RUNS = 3
"""So many past runs weigh as much as what the model says by itself."""


@dataclass(frozen=True, kw_only=True)
class Residual:
    """What past runs of a device say of its predictions."""

    runs: int
    shift: float
    """Natural logarithm of truth over prediction, shrunk."""
    scatter: float
    """Standard deviation of what is left of each run's."""


def spread_of(one: Ranged) -> float:
    """Standard deviation of the logarithm that a range stands for."""
    return math.log(one.high / one.low) / (2 * WITHIN)


def ranged(value: float, spread: float) -> Ranged:
    """A figure with the range that so much spread gives it."""
    factor = math.exp(WITHIN * spread)
    return Ranged(value=value, low=value / factor, high=value * factor)


def take_measured(step: StepPrediction, seconds: Sequence[float], why: str) -> StepPrediction:
    """The step as it was measured on the device itself: the median of its seconds."""
    value = statistics.median(seconds)
    noise = 0.0
    if len(seconds) > 1:
        logs = [math.log(one) for one in seconds]
        middle = statistics.median(logs)
        robust = 1.4826 * statistics.median(abs(one - middle) for one in logs)
        noise = 1.2533 * robust / math.sqrt(len(logs))
    spread = math.hypot(noise, MEASURED_SPREAD)
    return _scaled(step, value / step.step_s.value, spread, why, "measured here")


def rescale(
    step: StepPrediction, here: StepPrediction, measured_s: float, why: str, *, alike: bool
) -> StepPrediction:
    """The step by what the same one took on the device here, over what was predicted of it.

    What both predictions lack alike drops out. What each device does by itself does not, so that
    the range is of both, and never narrower than before; wider yet where they are not `alike`.
    """
    spread = math.hypot(spread_of(step.step_s), spread_of(here.step_s), 0 if alike else _UNLIKE)
    return _scaled(step, measured_s / here.step_s.value, spread, why, step.tier)


def find_residual(ratios: Sequence[float]) -> Residual | None:
    """Of measured over predicted steps of past runs; None without one."""
    logs = [math.log(one) for one in ratios if one > 0]
    if not logs:
        return None
    shift = statistics.median(logs) * len(logs) / (len(logs) + _PRIOR_RUNS)
    scatter = math.sqrt(statistics.fmean((one - shift) ** 2 for one in logs))
    return Residual(runs=len(logs), shift=shift, scatter=scatter)


def learn(step: StepPrediction, residual: Residual) -> StepPrediction:
    """The step shifted by past runs; its spread between its own and theirs, by their number."""
    runs, factor = residual.runs, math.exp(residual.shift)
    weight = runs / (runs + _PRIOR_RUNS)
    own = spread_of(step.step_s)
    spread = math.sqrt((1 - weight) * own**2 + weight * residual.scatter**2)
    off, word = abs(factor - 1), "low" if factor > 1 else "high"
    runs_said = "1 past run" if runs == 1 else f"{runs} past runs"
    why = f"{runs_said} on this device: predictions were {off:.0%} {word}, after shrinking"
    return _scaled(step, factor, spread, why, step.tier)


def _scaled(
    step: StepPrediction, factor: float, spread: float, why: str, tier: Tier
) -> StepPrediction:
    step_s = ranged(step.step_s.value * factor, spread)
    energy = step.energy_j
    if step.power_w is not None and energy is not None:
        width = math.log(step.power_w.high / step.power_w.value) / WITHIN
        energy = ranged(step.power_w.value * step_s.value, math.hypot(width, spread))
    return replace(
        step,
        step_s=step_s,
        device_s=step.device_s * factor,
        host_s=step.host_s * factor,
        exchange_s=step.exchange_s * factor,
        layers=tuple(_layer(one, factor) for one in step.layers),
        utilisation=None if step.utilisation is None else step.utilisation / factor,
        energy_j=energy,
        tier=tier,
        why=why if tier != step.tier else f"{step.why}; {why}",
        model=step.model or step,
    )


def _layer(one: LayerPrediction, factor: float) -> LayerPrediction:
    return replace(
        one,
        forward_s=one.forward_s * factor,
        backward_s=one.backward_s * factor,
        update_s=one.update_s * factor,
    )
