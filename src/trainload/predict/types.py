"""What a prediction says: figures with their ranges, the tier they rest on, layers, what limits.

Values alone; computed by the room's other modules, drawn by the report.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainload.predict.transfer import LEVEL, Tier

Bound = Literal["device", "host"]
Limit = Literal["compute", "memory", "launch", "input"]


@dataclass(frozen=True, kw_only=True)
class Ranged:
    """A predicted figure and the range that holds the truth in 19 of 20 cases."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> Ranged:
        """The figure and its range multiplied."""
        return Ranged(value=self.value * factor, low=self.low * factor, high=self.high * factor)

    def over(self, count: float) -> Ranged:
        """A count over the figure: its low end is from the high one."""
        return Ranged(value=count / self.value, low=count / self.high, high=count / self.low)


@dataclass(frozen=True, kw_only=True)
class LayerPrediction:
    """One layer's share of the device's time in a step."""

    name: str
    """Empty for what belongs to no layer: loss, update."""
    forward_s: float
    backward_s: float
    update_s: float
    limit: Limit
    """What holds most of its time."""

    @property
    def total_s(self) -> float:
        """Of all phases."""
        return self.forward_s + self.backward_s + self.update_s


@dataclass(frozen=True, kw_only=True)
class StepPrediction:
    """The time of one step on one device, or on several of its kind."""

    step_s: Ranged
    device_s: float
    """What the device computes without waiting."""
    host_s: float
    """What the host needs to dispatch the operations."""
    exchange_s: float
    """What several devices wait for each other's gradients; 0 for one."""
    bound: Bound
    limit: Limit
    tier: Tier
    nearest: tuple[str, ...]
    """Calibrations it rests on, nearest first."""
    why: str
    """Why the range is as wide as it is."""
    layers: tuple[LayerPrediction, ...]
    """By predicted time, longest first."""
    flop: float
    utilisation: float | None
    """FLOPs a second over the peak of `utilisation_of`; None without products."""
    utilisation_of: str | None
    power_w: Ranged | None
    energy_j: Ranged | None
    """Of a step on all devices; None where the device's power is not known."""
    level: float = LEVEL
    model: StepPrediction | None = None
    """What the model alone says, where steps measured here or past runs changed it."""
