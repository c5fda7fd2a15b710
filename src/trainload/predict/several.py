"""Several devices of a kind: what the exchange of gradients adds to a step; arithmetic alone.

The bus is known by the kind of board; a machine's own wiring is not, and its user may name it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainload.hardware.catalogue import Device

_SWITCHED = frozenset({"h100-sxm", "h800-sxm", "h200", "b200", "b300", "gb200"})
"""Boards that are sold on NVSwitches alone."""
_SWITCH_SHARE = 0.8
"""What an all-reduce's bus reaches through a switch, of what the maker states for a direction."""
SHARED_BUS = 2e10
"""Of boards that may be wired in any way: fitted to published throughputs of 2 to 8 V100, A100 and
RTX A6000 (lambdal/deeplearning-benchmark), which no one figure explains well.
bench/predict_devices.py fits it again without the device that it judges."""
_OVERLAPPED = 0.5
"""Share of the backward pass that hides an exchange over a switch; over a shared bus none does."""
_STRAGGLE = 0.01
"""What waiting for the slowest adds, of a step."""


def bus_bytes_per_s(device: Device) -> float:
    """Bus bandwidth of an all-reduce between boards of this kind."""
    return _switched(device) or SHARED_BUS


def exchange_seconds(
    device: Device,
    count: int,
    gradient_bytes: float,
    step_s: float,
    *,
    backward_share: float = 0.6,
    bus: float | None = None,
) -> float:
    """Seconds that a step of `step_s` grows by on each of `count` devices; 0 for one.

    A ring moves 2 (K - 1) / K of the gradients; what the backward pass does not hide is waited for.
    `bus` overrules the bandwidth in bytes a second.
    """
    if count <= 1:
        return 0.0
    moved = 2 * (count - 1) / count * gradient_bytes
    hidden = _OVERLAPPED * backward_share * step_s if _switched(device) else 0.0
    waited = max(0.0, moved / (bus or bus_bytes_per_s(device)) - hidden)
    return waited + _STRAGGLE * step_s


def _switched(device: Device) -> float | None:
    stated = device.value("link_bytes_per_s")
    return None if stated is None or device.name not in _SWITCHED else _SWITCH_SHARE * stated
