"""Calibrations made up by a rule, so that what a prediction should say is known."""

from trainload.hardware.calibrations import Calibration, Point
from trainload.hardware.catalogue import find_device
from trainload.predict.limits import limits_of
from trainload.predict.work import Work


def linear_point(m, n, k, seconds, dtype="float32"):
    item = 4 if dtype in ("float32", "tf32") else 2
    return Point(
        operation="linear",
        dtype=dtype,
        sizes={"m": m, "n": n, "k": k},
        flops=2.0 * m * n * k,
        bytes=float(item * (m * k + k * n + m * n)),
        seconds=seconds,
    )


def row_point(operation, elements, seconds, dtype="float32"):
    item = 4 if dtype == "float32" else 2
    return Point(
        operation=operation,
        dtype=dtype,
        sizes={"elements": elements, "operands": 2},
        flops=0.0,
        bytes=float(2 * item * elements),
        seconds=seconds,
    )


def made_calibration(device, share, dtype="float32", floor_s=5e-6, **more):
    """A device that reaches `share` of its roofline, whatever is asked of it."""
    limits = limits_of(find_device(device))
    peak = limits.peak(dtype, 1.0)
    points = []
    for m in (64, 256, 1024, 4096):
        for n in (128, 512, 2048):
            for k in (128, 1024):
                blank = linear_point(m, n, k, 1.0, dtype)
                ideal = max(blank.flops / peak, blank.bytes / limits.bandwidth)
                points.append(linear_point(m, n, k, floor_s + ideal / share, dtype))
    for size in range(8, 25):
        blank = row_point("elementwise", 2**size, 1.0, dtype)
        seconds = floor_s + blank.bytes / limits.bandwidth / share
        points.append(row_point("elementwise", 2**size, seconds, dtype))
    given = {
        "dispatch_s": {}, "idle_w": None, "taken_at": "2026-01-01", "software": {},
        "source": "made up", **more,
    }  # fmt: skip
    return Calibration(device=device, points=tuple(points), **given)


def linear_work(m, n, k, dtype="float32", **more):
    item = 4 if dtype in ("float32", "tf32") else 2
    return Work(
        operation="linear",
        dtype=dtype,
        sizes={"m": m, "n": n, "k": k},
        flops=2.0 * m * n * k,
        bytes=float(item * (m * k + k * n + m * n)),
        **more,
    )


def row_work(elements, operation="elementwise", dtype="float32", **more):
    item = 4 if dtype == "float32" else 2
    return Work(
        operation=operation,
        dtype=dtype,
        sizes={"elements": elements, "operands": 2},
        flops=0.0,
        bytes=float(2 * item * elements),
        **more,
    )
