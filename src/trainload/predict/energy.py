"""Power of a device under a load, clamped to its board's limit; arithmetic alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainload.predict.types import Ranged

if TYPE_CHECKING:
    from trainload.hardware.catalogue import Device
    from trainload.predict.transfer import Tier

_IDLE_SHARE = 0.2
"""Of the board's limit, while kernels wait for each other; where no calibration measured it."""
_FULL_LOAD = 0.75
"""The load from which on a board draws its limit: dense products reach it below their peak."""
_WIDTH = {"calibrated": 0.15, "datasheet": 0.35, "measured here": 0.15}
"""Half the range as a share of what lies between idle and the limit."""


def measured_power(device: Device, idle_w: float, above_j: float, step_s: float) -> Ranged | None:
    """Watts of a step whose kernels draw so many joules above idle; None without a limit."""
    limit_w = device.value("power_w")
    if limit_w is None:
        return None
    value = min(max(idle_w + above_j / step_s, 0.5 * idle_w), limit_w)
    width = _WIDTH["calibrated"] * limit_w
    return Ranged(
        value=value, low=max(value - width, 0.5 * idle_w), high=min(value + width, limit_w)
    )


def power_of(device: Device, idle_w: float | None, load: float, tier: Tier) -> Ranged | None:
    """Watts of one board at a load between 0 and 1; None where its limit is not stated.

    Idle and what the load adds, in a straight line up to the board's limit.
    """
    limit_w = device.value("power_w")
    if limit_w is None:
        return None
    resting_w = min(idle_w if idle_w is not None else _IDLE_SHARE * limit_w, limit_w)
    room_w = limit_w - resting_w
    value = resting_w + room_w * min(1.0, load / _FULL_LOAD)
    width = _WIDTH[tier] * limit_w
    return Ranged(
        value=value, low=max(value - width, 0.5 * resting_w), high=min(value + width, limit_w)
    )
