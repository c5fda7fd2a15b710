"""What a device can do at most: peaks by number type, bandwidth, and what its power allows.

Datasheet figures and a few constants of silicon; measures nothing. A figure that the catalogue
lacks stays missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainload.hardware.catalogue import Device

_PEAKS = {
    "float32": ("float32_flop_per_s",),
    "tf32": ("tf32_flop_per_s",),
    "bfloat16": ("bf16_flop_per_s",),
    "float16": ("fp16_flop_per_s",),
}
FLOAT32_J = 21e-12
"""Joules of the whole board for a float32 FLOP in 16 nm, as `board_joules` gives it for the boards
of the public tables; bench/predict_ops.py fits it again without the device that it judges."""
_MATRIX_UNIT = 0.12
"""Share of that for a FLOP in half precision on matrix units: assumed, no table tells."""
_NODES = ((5.9, 1.3), (6.9, 1.0), (7.9, 0.9), (8.05, 0.65), (8.8, 0.75), (99.0, 0.42))
"""Energy of a FLOP against 16 nm, up to each compute capability: assumed by process node."""
_CORES = ((6.05, 64), (6.9, 128), (8.05, 64), (99.0, 128))
"""float32 units of a multiprocessor, up to each compute capability (CUDA's programming guide)."""
_GENERATIONS = ((5.9, -1.0), (6.9, 0.0), (7.2, 2.0), (7.9, 2.3), (8.05, 2.8), (8.95, 3.2))
"""Architectures on a line: the closer, the more alike their kernels."""
_CLOCK_HZ = 1.5e9
_ECC_READS = 2.0
"""Bandwidth that error correction takes where it lies in the memory itself, against the share of
the memory that it takes: its bits are read beside the data, and written after being read."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The roofline of a device, and what its board's power allows."""

    peaks: dict[str, float]
    """FLOP/s by number type; only those that the entry states."""
    bandwidth: float
    """Bytes a second, less what error correction in the memory itself takes."""
    powered: dict[str, float]
    """FLOP/s that the board's power allows on and on; the peak where no power is stated."""
    multiprocessors: float
    """Derived from the peak at a usual clock: good to a third."""
    generation: float
    is_cpu: bool
    known_architecture: bool
    """Whether it has a compute capability: calibrated kernels are CUDA's."""

    def peak(self, dtype: str, power_share: float) -> float:
        """FLOP/s of a class that draws so much of the power a dense product would."""
        peak = self.peaks[dtype]
        return float(peak * (self.powered[dtype] / peak) ** power_share)


def lacking_limits(device: Device) -> str | None:
    """Why a device has no limits, in one line; None where it has."""
    if device.kind == "accelerator":
        return f"{device.name} has kernels of its own kind, of which no calibration tells"
    if device.value("bandwidth_bytes_per_s") is None or device.value("float32_flop_per_s") is None:
        return f"the entry of {device.name} states no bandwidth or no float32 peak"
    return None


def limits_of(device: Device, float32_j: float = FLOAT32_J) -> Limits | None:
    """The limits by the device's entry; None where `lacking_limits` says why.

    `float32_j` overrules the energy of a FLOP, for who fits it again without a device.
    """
    bandwidth = device.value("bandwidth_bytes_per_s")
    peaks: dict[str, float] = {}
    for dtype, names in _PEAKS.items():
        for name in names:
            value = device.value(name)
            if value is not None:
                peaks[dtype] = value
    if bandwidth is None or lacking_limits(device) is not None:
        return None
    bandwidth *= 1 - _ECC_READS * (device.value("ecc_memory_fraction") or 0.0)
    capability = device.value("compute_capability")
    cpu = device.kind == "CPU" or device.name.endswith("-cpu")
    mark = capability if capability is not None else 8.0
    power = device.value("power_w")
    per_flop = float32_j * _step(_NODES, mark)
    powered = {}
    for dtype, peak in peaks.items():
        joules = per_flop if dtype == "float32" else per_flop * _MATRIX_UNIT
        if dtype == "tf32":
            joules *= 2
        if dtype == "float16" and capability is not None and capability < 7:
            joules = per_flop / 2
        allowed = peak if power is None or cpu or capability is None else power / joules
        powered[dtype] = min(peak, allowed)
    return Limits(
        peaks=peaks,
        bandwidth=bandwidth,
        powered=powered,
        multiprocessors=max(peaks["float32"] / (2 * _step(_CORES, mark) * _CLOCK_HZ), 1.0),
        generation=_step((*_GENERATIONS, (99.0, 3.5)), mark) if not cpu else -9.0,
        is_cpu=cpu,
        known_architecture=capability is not None,
    )


def board_joules(device: Device, flop_per_s: float) -> float | None:
    """The board's joules for a float32 FLOP at the highest rate it held, scaled to 16 nm.

    An upper bound where something else than its power held it; None where no power is stated.
    """
    power, capability = device.value("power_w"), device.value("compute_capability")
    if power is None or capability is None:
        return None
    return power / flop_per_s / _step(_NODES, capability)


def usable_dtype(dtype: str, limits: Limits) -> str | None:
    """The type that the device computes in when asked for this one; None where it has none.

    TF32 is float32 where a device lacks it: torch's switch does nothing there.
    """
    if dtype in limits.peaks:
        return dtype
    return "float32" if dtype in ("tf32", "float64") else None


def _step(table: tuple[tuple[float, float], ...], mark: float) -> float:
    return next(value for upto, value in table if mark <= upto)
