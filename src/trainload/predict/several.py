"""Several devices of a kind: the gradients' exchange, overlapped with the backward pass.

Arithmetic alone. The bus is known by the kind of board; a machine's own wiring is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainload.hardware.catalogue import Device

_LINKS = (
    ("sxm2", 1.2e11),
    ("sxm4", 2.3e11),
    ("h100-sxm", 3.6e11),
    ("h200", 3.6e11),
    ("b200", 7.0e11),
)
"""Bytes a second of an all-reduce's bus over NVLink, by parts of names: about 80 % of a direction's
datasheet figure."""
_PCIE = 1.1e10
"""Without NVLink, over PCIe and the host."""
_LATENCY_S = 2e-5
_BUCKETS = 25e6
"""Bytes of gradients that torch's DistributedDataParallel exchanges at once."""
_OVERLAPPED = 0.8
"""Share of the backward pass that can hide an exchange: the first buckets come late."""
_STRAGGLE = 0.02
"""What waiting for the slowest of several adds to a step."""


def bus_bytes_per_s(device: Device) -> float:
    """Bus bandwidth of an all-reduce between boards of this kind."""
    return next((speed for part, speed in _LINKS if part in device.name), _PCIE)


def exchange_seconds(
    device: Device, count: int, gradient_bytes: float, backward_s: float
) -> float:
    """Seconds that a step of each of `count` devices grows by; 0 for one.

    A ring moves 2 (K - 1) / K of the gradients; what the backward pass does not hide is waited for.
    """
    if count <= 1:
        return 0.0
    moved = 2 * (count - 1) / count * gradient_bytes
    buckets = max(1.0, gradient_bytes / _BUCKETS)
    ring_s = moved / bus_bytes_per_s(device) + buckets * _LATENCY_S
    waited = max(0.0, ring_s - _OVERLAPPED * backward_s)
    return waited + min(_BUCKETS, gradient_bytes) * 2 / bus_bytes_per_s(device) + (
        _STRAGGLE * backward_s * 1.5
    )
