"""Load of the host's processor cores from /proc/stat; says nothing of any single process."""

import os
from pathlib import Path
from typing import NamedTuple

from trainload.errors import MeterError
from trainload.meters._kept_file import KeptFile, render_os_error
from trainload.meters.meter import AbsentMeter, Meter, MeterContext, Quantity, Value

_NAME = "host_cpu"
_BUSY_REASON = (
    "user + nice + system + irq + softirq + steal; idle and iowait are not busy, and a stolen "
    "tick is, since the core was wanted and not to be had"
)
_FRACTION_REASON = (
    "busy over all ticks since the last read; the kernel counts whole ticks, so that at 10 reads "
    "a second a core's fraction moves in steps of about 10 ticks"
)


class CoreTimes(NamedTuple):
    """A core's time since boot, in one unit throughout (ticks or seconds).

    A tuple, since one is made for each core at each read and a frozen dataclass costs thrice.
    """

    busy: float
    idle: float


def load_between(before: CoreTimes | None, after: CoreTimes | None) -> float | None:
    """Busy share of the time between two readings, in [0, 1].

    None without both readings, when no time passed, or when a counter went backwards, which
    hotplug of a core does.
    """
    if before is None or after is None:
        return None
    busy = after.busy - before.busy
    idle = after.idle - before.idle
    if busy < 0 or idle < 0 or busy + idle <= 0:
        return None
    return busy / (busy + idle)


def parse_stat(text: bytes) -> dict[bytes, CoreTimes]:
    """Ticks by line name (`cpu` for all cores, `cpu0`, …) of a /proc/stat text."""
    found: dict[bytes, CoreTimes] = {}
    for line in text.split(b"\n"):
        if not line.startswith(b"cpu"):
            break
        fields = line.split()
        if len(fields) < 6:
            break
        # Guest time is already inside user and nice, so only the first eight are summed.
        ticks = list(map(int, fields[1:9]))
        idle = ticks[3] + ticks[4]
        found[fields[0]] = CoreTimes(sum(ticks) - idle, idle)
    return found


def _quantities(cores: list[int], source: str, refresh_s: float | None) -> tuple[Quantity, ...]:
    columns = ["host_cpu_load_fraction", *(f"host_cpu{i}_load_fraction" for i in cores)]
    loads = [
        Quantity(
            column=column,
            provenance="derived",
            source=source,
            refresh_s=refresh_s,
            reason=_FRACTION_REASON,
            capacity=1.0,
        )
        for column in columns
    ]
    busy = Quantity(
        column="host_cpu_busy_s",
        provenance="measured",
        source=source,
        refresh_s=refresh_s,
        reason=_BUSY_REASON,
        cumulative=True,
    )
    return (*loads, busy)


class ProcStatMeter:
    """Reads /proc/stat through one kept descriptor."""

    name = _NAME
    period_s = 0.0

    def __init__(self, path: Path, ticks_per_s: int) -> None:
        # The cpu lines come first; what follows (a long line of interrupts) is not fetched.
        self._file = KeptFile(path, size_bytes=160 * ((os.cpu_count() or 1) + 2))
        self._ticks_per_s = ticks_per_s
        try:
            names = list(parse_stat(self._file.read()))
        except ValueError as error:
            raise MeterError(f"{path} is not in the form of proc(5)") from error
        if b"cpu" not in names:
            raise MeterError(f"{path} has no cpu line")
        self._names = [b"cpu", *(name for name in names if name != b"cpu")]
        self._last: dict[bytes, CoreTimes] = {}
        cores = [int(name[3:]) for name in self._names[1:]]
        self.quantities = _quantities(cores, str(path), 1 / ticks_per_s)

    def read(self, t_s: float) -> list[Value]:  # noqa: ARG002 - ticks carry their own time
        """Fractions since the last read (None at the first), then busy core-seconds."""
        try:
            now = parse_stat(self._file.read())
            busy_s = now[b"cpu"].busy / self._ticks_per_s
        except (ValueError, KeyError) as error:
            raise MeterError(f"{self._file.path} is not in the form of proc(5)") from error
        last, self._last = self._last, now
        values: list[Value] = [load_between(last.get(n), now.get(n)) for n in self._names]
        values.append(busy_s)
        return values

    def close(self) -> None:
        """Give the descriptor back."""
        self._file.close()


class PsutilCpuMeter:
    """The same quantities through psutil, for systems without /proc/stat."""

    name = _NAME
    period_s = 0.0

    def __init__(self) -> None:
        import psutil

        self._cpu_times = psutil.cpu_times
        self._core_count = len(psutil.cpu_times(percpu=True))
        self._last: list[CoreTimes] = []
        self.quantities = _quantities(list(range(self._core_count)), "psutil.cpu_times", None)

    def read(self, t_s: float) -> list[Value]:  # noqa: ARG002 - the counters carry their own time
        """Fractions since the last read (None at the first), then busy core-seconds."""
        cores = []
        for times in self._cpu_times(percpu=True):
            idle = times.idle + getattr(times, "iowait", 0.0)
            guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
            cores.append(CoreTimes(sum(times) - idle - guests, idle))
        busy_s = sum(core.busy for core in cores)
        now = [CoreTimes(busy_s, sum(core.idle for core in cores)), *cores]
        last = self._last if len(self._last) == len(now) else [None] * len(now)
        self._last = now
        values: list[Value] = [load_between(b, a) for b, a in zip(last, now, strict=True)]
        values.append(busy_s)
        return values

    def close(self) -> None:
        """Nothing to give back."""


def open_host_cpu_meter(context: MeterContext) -> Meter:
    """The host's core loads; absent where there is no readable stat file."""
    path = context.proc_root / "stat"
    try:
        return ProcStatMeter(path, os.sysconf("SC_CLK_TCK"))
    except OSError as error:
        if context.proc_root == Path("/proc"):
            return PsutilCpuMeter()
        reason = render_os_error(error)
    except MeterError as error:
        reason = str(error)
    columns = ("host_cpu_load_fraction", "host_cpu_busy_s")
    return AbsentMeter(name=_NAME, reason=reason, source=str(path), columns=columns)
