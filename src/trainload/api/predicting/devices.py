"""Devices that are predicted for: of the catalogue, of a file, or of a calibration alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainload.errors import UnknownHardware, UsageError
from trainload.hardware.catalogue import FIGURES, Device, Figure, find_device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainload.hardware.calibrations import Calibration

_PEAKS = {
    "float32_flop_per_s": "float32",
    "bf16_flop_per_s": "bfloat16",
    "fp16_flop_per_s": "float16",
}
_NO_FILE = (
    "{name} of this machine is neither in the catalogue nor calibrated: describe it in a file "
    "(docs/devices.md) or run `trainload calibrate` first"
)
_NO_CALIBRATION = (
    "--measure on the CPU needs its calibration first: run `trainload calibrate --device cpu`"
)


@dataclass(frozen=True, kw_only=True)
class Here:
    """The device of this machine that a run takes."""

    device: Device
    name: str
    """As its driver or the system gives it."""


def find_known(name: str) -> Device:
    """A device by name or file; a processor that was only calibrated is as it was measured.

    UnknownHardware where nobody knows it.
    """
    try:
        return find_device(name)
    except UnknownHardware:
        from trainload.hardware.calibrations import load_calibrations

        found = load_calibrations().get(name)
        made = None if found is None else calibrated_processor(found)
        if made is None:
            raise
        return made


def find_devices(named: Sequence[str | Path | Device]) -> list[Device]:
    """Each once, in the order asked for; UsageError where there is none."""
    found = [one if isinstance(one, Device) else find_known(str(one)) for one in named]
    if not found:
        raise UsageError("device=[]: name at least one device; trainload devices lists them")
    return list({one.name: one for one in found}.values())


def find_here(named: Sequence[Device]) -> Here:
    """What a run takes on this machine, one of `named` where it is; UsageError with what to do."""
    from trainload.hardware import read_machine
    from trainload.hardware.calibrations import load_calibrations
    from trainload.hardware.inventory import cpu_name
    from trainload.hardware.naming import device_key

    machine = read_machine()
    gpu = machine.accelerators[0].name if machine.accelerators else None
    name = gpu or cpu_name(machine)
    key = device_key(name)
    if gpu is None and key not in load_calibrations():
        raise UsageError(_NO_CALIBRATION)
    own = next((one for one in named if one.name == key), None)
    if own is not None:
        return Here(device=own, name=name)
    try:
        return Here(device=find_known(key), name=name)
    except UnknownHardware:
        raise UsageError(_NO_FILE.format(name=name)) from None


def calibrated_processor(found: Calibration) -> Device | None:
    """A processor whose best measured rates are its peaks; None for what is no processor.

    Of a processor the host that dispatched is the device itself.
    """
    from trainload.hardware.naming import device_key

    if found.host_cpu is None or device_key(found.host_cpu) != found.device:
        return None
    figures: dict[str, Figure | None] = dict.fromkeys(FIGURES)
    said = f"best rate of its calibration of {found.taken_at}"
    for name, dtype in _PEAKS.items():
        rates = [one.flops / one.seconds for one in found.points if one.dtype == dtype]
        if any(rates):
            figures[name] = Figure(value=max(rates), source=said)
    moved = [one.bytes / one.seconds for one in found.points]
    if moved:
        figures["bandwidth_bytes_per_s"] = Figure(value=max(moved), source=said)
    return Device(
        name=found.device,
        title=found.host_cpu,
        maker=None,
        kind="CPU",
        year=None,
        aliases=(),
        note=None,
        figures=figures,
    )
