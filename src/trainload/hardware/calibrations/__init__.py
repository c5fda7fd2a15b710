"""What a device was measured to do: times of operations by class, type and size.

One file for each device, shipped or the user's own. Reads and writes files; measures nothing.
"""

from trainload.hardware.calibrations.files_of import (
    calibrations_folder,
    check_place,
    find_calibration,
    load_calibration,
    load_calibrations,
    save_calibration,
)
from trainload.hardware.calibrations.types import OPERATIONS, SIZES, Calibration, Point

__all__ = [
    "OPERATIONS",
    "SIZES",
    "Calibration",
    "Point",
    "calibrations_folder",
    "check_place",
    "find_calibration",
    "load_calibration",
    "load_calibrations",
    "save_calibration",
]
