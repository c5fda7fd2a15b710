"""Energy of kernels from the power that a calibration read: while one runs, by FLOP, by byte.

Fits the points of the one calibration it was given; energy so depends little on predicted times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainload.predict.features import is_narrow
from trainload.predict.work import LEAST_KERNEL_S, Work, work_of

if TYPE_CHECKING:
    from trainload.hardware.calibrations import Point

_LEAST_POINTS = 12
_TYPES = {"float32": 1, "float64": 1, "tf32": 2, "bfloat16": 3, "float16": 3}
_BYTES = 4
_LATE, _LOW = 1.1, 0.75
"""Calls that took so many times longer when repeated, at less than this share of the highest power
that was read, waited for the host and not for their power."""


@dataclass(frozen=True, kw_only=True)
class EnergyRates:
    """What a device draws above idle: watts while kernels run, joules of FLOPs and bytes."""

    running_w: float
    flop_j: tuple[float, float, float]
    """In float32, TF32 and half precision."""
    byte_j: float

    def above_idle_j(self, works: Sequence[Work], seconds: Sequence[float]) -> float:
        """Joules above idle of works that take so many seconds.

        What the least kernel takes is launch and end, in which next to nothing runs.
        """
        rates = (self.running_w, *self.flop_j, self.byte_j)
        total_j = 0.0
        for work, took_s in zip(works, seconds, strict=True):
            column = _column(work)
            total_j += rates[0] * max(took_s - LEAST_KERNEL_S, 0.0)
            total_j += rates[column] * work.flops + rates[_BYTES] * work.bytes
        return total_j


def fit_rates(points: Sequence[Point], idle_w: float | None) -> EnergyRates | None:
    """The rates that the points' power tells, none below zero; None where too few have one.

    Least squares of relative errors. A type that was not measured is taken as float32.
    """
    import numpy as np
    from scipy.optimize import nnls

    read = [one for one in points if one.power_w is not None and not one.sizes.get("from_host")]
    if idle_w is None or len(read) < _LEAST_POINTS:
        return None
    highest_w = max(one.power_w or 0.0 for one in read)
    rows: list[Any] = []
    for point in read:
        watts, lasting_s = point.power_w or 0.0, point.sustained_s or point.seconds
        waited = lasting_s > _LATE * point.seconds and watts < _LOW * highest_w
        row = np.zeros(_BYTES + 2)
        row[0] = point.seconds / lasting_s if waited else 1.0
        row[_column(work_of(point))] = point.flops / lasting_s
        row[_BYTES] = point.bytes / lasting_s
        row[-1] = watts - idle_w
        rows.append(row / watts)
    table = np.array(rows)
    scale = np.maximum(table.max(axis=0), 1e-30)
    found = nnls(table[:, :-1] / scale[:-1], table[:, -1])[0] / scale[:-1]
    known = table[:, :-1].any(axis=0)
    flop_j = [float(found[at] if known[at] else found[1]) for at in (1, 2, 3)]
    return EnergyRates(
        running_w=float(found[0]),
        flop_j=(flop_j[0], flop_j[1], flop_j[2]),
        byte_j=float(found[_BYTES]),
    )


def _column(work: Work) -> int:
    """Where the rate of the work's type stands; narrow groups do not run on matrix units."""
    return 1 if is_narrow(work) else _TYPES.get(work.dtype, 1)
