"""How much of a device's peak a training uses (MFU), and which peak that is.

Takes counts and times that others measured; the peaks are the catalogue's, with their source, and
beside them what a machine like the run's was measured to reach (`trainload detect --measure`),
where the caller has it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainload.hardware.catalogue import Device
from trainload.hardware.limits import MachineLimits
from trainload.hardware.naming import device_key, match_device
from trainload.units import render_percent

if TYPE_CHECKING:
    from trainload.record import Manifest

OTHERS = 0.1
"""Share of the cores that others took from which on a measured rate is said to have suffered."""
_TYPES = {"float32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""Number types as the programs that measure a machine name them."""
_PEAKS = {"float32": "float32_flop_per_s", "bf16": "bf16_flop_per_s", "fp16": "fp16_flop_per_s"}


@dataclass(frozen=True, kw_only=True)
class Reached:
    """A step against the products of matrices that such a machine was measured to reach."""

    fraction: float
    flop_per_s: float
    """Measured, of the number type with most operations; others count by theirs."""
    name: str
    """Number type and, of a processor, threads; and others' load while it was measured."""
    taken_at: str


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
    reached: Reached | None = None
    """None where no limits of such a machine are kept here."""


def utilisation_of_run(
    manifest: Manifest,
    device: str,
    flop_by_type: Mapping[str, float] | None,
    step_s: float | None,
    limits: MachineLimits | None,
) -> Utilisation | None:
    """The utilisation of a run's step on `device`, by datasheet and by limits of its machine.

    Of a processor the datasheet counts where the run had all of its cores.
    """
    resolved, machine = manifest.setting.resolved, manifest.machine
    on_cpu = device.startswith("cpu")
    name = None
    if resolved is not None and not on_cpu:
        name = next((one.name for one in resolved.accelerators), None)
    elif resolved is not None and machine is not None and machine.cpu_model is not None:
        key = device_key(machine.cpu_model)
        known = match_device(key)
        whole = len(resolved.cores) == machine.logical_cores
        if known is not None and whole and known.value("cores") == machine.physical_cores:
            name = key
    used = find_utilisation(flop_by_type, step_s, name)
    if used is None or limits is None or not flop_by_type or not step_s:
        return used
    obtained = manifest.setting.obtained
    threads = None if resolved is None or not on_cpu else resolved.threads
    if threads is not None and obtained is not None:
        threads = obtained.threads or threads
    kind = "cpu" if on_cpu else "cuda"
    return replace(used, reached=_reached(limits, kind, threads, flop_by_type, step_s))


def _reached(
    limits: MachineLimits,
    device: str,
    threads: int | None,
    flop_by_type: Mapping[str, float],
    step_s: float,
) -> Reached | None:
    """None where a number type of the step was not measured, or not with these threads."""
    rates = {kind: _measured_rate(limits, device, kind, threads) for kind in flop_by_type}
    plain = rates.get("float32")
    if plain is not None and flop_by_type["float32"] / step_s > plain:  # they ran as TF32
        rates["float32"] = _measured_rate(limits, device, "tf32", threads) or plain
    known = {kind: rate for kind, rate in rates.items() if rate is not None}
    if len(known) < len(rates):
        return None
    main = max(flop_by_type, key=lambda kind: flop_by_type[kind])
    beside = "" if threads is None else f", {threads} thread{'' if threads == 1 else 's'}"
    program = limits.find("matrix-rate")
    others = None if program is None else program.others_fraction
    if others is not None and others > OTHERS:
        beside += f", while others took {render_percent(others, 0)} of the cores"
    return Reached(
        fraction=sum(flop_by_type[kind] / rate for kind, rate in known.items()) / step_s,
        flop_per_s=known[main],
        name=f"{main} matrices{beside}",
        taken_at=limits.taken_at,
    )


def _measured_rate(
    limits: MachineLimits, device: str, kind: str, threads: int | None
) -> float | None:
    found = limits.find("matrix-rate")
    at = {"device": device, "dtype": _TYPES.get(kind, kind)}
    if threads is not None:
        at["threads"] = str(threads)
    for reading in () if found is None else found.readings:
        if all(reading.at.get(name) == level for name, level in at.items()) and reading.values:
            rate = statistics.median(reading.values)
            return rate if rate > 0 else None
    return None


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
