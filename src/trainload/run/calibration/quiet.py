"""Whether a device is free to be measured: others' load on it and on the host, heat, supply."""

from collections.abc import Callable

from trainload.errors import SettingError
from trainload.run.calibration.power import PowerLog
from trainload.run.calibration.target import CalibrationTarget
from trainload.run.settle import read_load
from trainload.units import render_bytes, render_percent

_HOST_LOAD = 0.3
_GPU_LOAD = 0.05
_GPU_MEMORY = 0.05
_LOOK_S = 1.0


def find_disturbance(
    target: CalibrationTarget,
    log: PowerLog,
    load: Callable[[float], float | None] = read_load,
) -> tuple[str, ...]:
    """What would spoil the measurement, a line each; empty where the device is free."""
    log.read()
    host = load(_LOOK_S)
    log.read()
    found = []
    if host is not None and host > _HOST_LOAD:
        found.append(f"the host's cores are at {render_percent(host)} load")
    gpu = target.accelerator
    if gpu is not None:
        busy = log.latest.get(f"gpu{gpu.index}_load_fraction")
        if busy is not None and busy > _GPU_LOAD:
            found.append(f"another program keeps the GPU at {render_percent(busy)} load")
        used = log.latest.get(f"gpu{gpu.index}_memory_used_bytes")
        share = log.latest.get(f"gpu{gpu.index}_memory_used_fraction")
        if used is not None and share is not None and share > _GPU_MEMORY:
            found.append(f"other programs hold {render_bytes(used)} of the GPU's memory")
    throttled = log.throttling()
    if throttled is not None:
        found.append(f"the device is {throttled}")
    return tuple(found)


def refuse_disturbed(target: CalibrationTarget, found: tuple[str, ...]) -> None:
    """SettingError where something would spoil the measurement."""
    if found:
        raise SettingError(
            f"{target.name} is not free: {'; '.join(found)}; calibrate when it is, "
            "or all the same with --anyway, which the file will say"
        )
