"""Whether a device is free to be measured: others' load on it and on the host, heat, supply."""

import time
from collections.abc import Callable

from trainload.errors import SettingError
from trainload.hardware import read_machine
from trainload.run.calibration.power import PowerLog, open_power_log
from trainload.run.calibration.target import CalibrationTarget, choose_target
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


def find_disturbance_here() -> tuple[str, ...]:
    """The same of the device that a run takes here: the first GPU or, without one, the CPU."""
    target = choose_target(None, read_machine())
    log = open_power_log(target)
    try:
        return find_disturbance(target, log)
    finally:
        log.close()


class OthersLoad:
    """What other processes take of the host's cores while a worker runs."""

    def __init__(self, pid: int, times: Callable[[int], tuple[float, float] | None]) -> None:
        self._pid, self._times = pid, times
        self._start_s = time.monotonic()
        self._first = self._last = times(pid)
        self._last_s = self._start_s

    def look(self) -> None:
        """Ask again; a worker that has ended leaves the last answer."""
        now = self._times(self._pid)
        if now is not None:
            self._last, self._last_s = now, time.monotonic()

    def fraction(self, cores: int) -> float | None:
        """Their share of the cores since the beginning; None where nothing told it."""
        elapsed_s = self._last_s - self._start_s
        if self._first is None or self._last is None or elapsed_s <= 0:
            return None
        busy_s, own_s = (last - first for first, last in zip(self._first, self._last, strict=True))
        return min(max((busy_s - own_s) / (cores * elapsed_s), 0.0), 1.0)


def watch_others(pid: int) -> OthersLoad:
    """By the kernel's counts of all cores and of the worker's own process."""
    return OthersLoad(pid, _read_times)


def _read_times(pid: int) -> tuple[float, float] | None:
    """Seconds that all cores were busy, and those of the process; None where it has ended."""
    import psutil

    try:
        own = psutil.Process(pid).cpu_times()
        total = psutil.cpu_times()
    except (psutil.Error, OSError):
        return None
    idle_s = total.idle + getattr(total, "iowait", 0.0)
    # The kernel counts guests' time in users' time already.
    guests_s = getattr(total, "guest", 0.0) + getattr(total, "guest_nice", 0.0)
    return sum(total) - idle_s - guests_s, own.user + own.system


def refuse_disturbed(target: CalibrationTarget, found: tuple[str, ...]) -> None:
    """SettingError where something would spoil the measurement."""
    if found:
        raise SettingError(
            f"{target.name} is not free: {'; '.join(found)}; calibrate when it is, "
            "or all the same with --anyway, which the file will say"
        )
