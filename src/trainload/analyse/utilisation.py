"""How much of a device's peak a training uses (MFU), and which peak that is.

Takes counts and times that others measured; the peaks are the catalogue's, with their source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainload.hardware.catalogue import Device
from trainload.hardware.naming import match_device

_PEAKS = {"float32": "float32_flop_per_s", "bf16": "bf16_flop_per_s", "fp16": "fp16_flop_per_s"}


@dataclass(frozen=True, kw_only=True)
class Utilisation:
    """Operations of a step against what the device could do in its time."""

    flop: float
    """Of one step, by shapes of products, convolutions and attention."""
    flop_per_s: float
    fraction: float | None
    """Of the peak; None where the catalogue has none for this device."""
    peak_flop_per_s: float | None = None
    """Of the number type with most operations; others count by theirs."""
    peak_name: str | None = None
    """Number type and device, as the catalogue names them."""
    source: str | None = None


def find_utilisation(
    flop_by_type: Mapping[str, float] | None, step_s: float | None, device: str | None
) -> Utilisation | None:
    """The utilisation of a step; None without operations or time. `device` is the driver's name.

    Products of float32 may run as TF32: where they are too many for the float32 peak they did.
    """
    if not flop_by_type or not step_s:
        return None
    flop = sum(flop_by_type.values())
    main = max(flop_by_type, key=lambda kind: flop_by_type[kind])
    known = match_device(device) if device is not None else None
    peaks = {kind: _peak(known, kind, flop_by_type[kind] / step_s) for kind in flop_by_type}
    plain = Utilisation(flop=flop, flop_per_s=flop / step_s, fraction=None)
    if known is None or any(peak is None for peak in peaks.values()):
        return plain
    needed_s = sum(flop_by_type[kind] / peak[1] for kind, peak in peaks.items() if peak)
    chosen = peaks[main]
    assert chosen is not None
    figure = known.figures[chosen[0]]
    return Utilisation(
        flop=flop,
        flop_per_s=plain.flop_per_s,
        fraction=needed_s / step_s,
        peak_flop_per_s=chosen[1],
        peak_name=f"{chosen[0].partition('_')[0]}, {known.title}",
        source=figure.source if figure is not None else None,
    )


def _peak(device: Device | None, kind: str, rate: float) -> tuple[str, float] | None:
    """Name and value of the peak that operations of a number type are a share of."""
    name = _PEAKS.get(kind)
    peak = device.value(name) if device is not None and name is not None else None
    if device is None or name is None or peak is None:
        return None
    faster = device.value("tf32_flop_per_s")
    if kind == "float32" and rate > peak and faster is not None:
        return "tf32_flop_per_s", faster
    return name, peak
