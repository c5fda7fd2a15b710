"""Calibrates a device of this machine and keeps what was measured; prints nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trainload.hardware.calibrations import Calibration, check_place, save_calibration
from trainload.run import find_interpreter
from trainload.run.calibration.sweeping import CalibrationRequest, calibrate_device


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """A calibration and the file it stands in."""

    calibration: Calibration
    path: Path


def calibrate(
    device: str | None = None,
    *,
    seconds: float = 150.0,
    out: str | Path | None = None,
    anyway: bool = False,
    python: str | None = None,
    show: Callable[[str], None] | None = None,
) -> Calibrated:
    """Time the kernels of `cpu` or `cuda:0` for so many seconds and keep them in a file.

    The file is the user's own of that device unless `out` names another. SettingError where others
    use the device, unless `anyway`.
    """
    place = None if out is None else Path(out)
    check_place(place)
    request = CalibrationRequest(
        python=find_interpreter("torch", python), device=device, seconds=seconds, anyway=anyway
    )
    found = calibrate_device(request, show)
    return Calibrated(calibration=found, path=save_calibration(found, place))
