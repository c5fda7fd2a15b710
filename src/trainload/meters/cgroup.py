"""Memory and processor time of the control group the run lives in; sets no limit.

Where the group is, and its limits, comes from `trainload.hardware.cgroup`.
"""

from collections.abc import Callable
from pathlib import Path

from trainload.errors import MeterError
from trainload.hardware.cgroup import CgroupLimits, read_cgroup_limits
from trainload.meters._kept_file import KeptFile
from trainload.meters.meter import AT_EACH_READ, AbsentMeter, Meter, MeterContext, Quantity, Value

_NAME = "cgroup"
_MEMORY_REASON = "as the kernel charges the group: page cache included"
_LIMIT_REASON = "the group's own use over the smallest limit from it up to the mount's root"
_QUOTA_REASON = (
    "the group's processor time since the last read over what the smallest quota from it up to "
    "the mount's root allows"
)


class _Counter:
    """One number of one kept file: the whole file, or the word after a key, times a scale."""

    def __init__(self, file: KeptFile, key: bytes, scale: float) -> None:
        self._file = file
        self._key = key
        self._scale = scale

    @property
    def path(self) -> str:
        return self._file.path

    def read(self) -> float:
        if not self._key:
            return self._file.read_int() * self._scale
        text = self._file.read()
        start = text.find(self._key)
        try:
            if start < 0:
                raise ValueError("the key is not there")
            return int(text[start + len(self._key) :].split(None, 1)[0]) * self._scale
        except (ValueError, IndexError) as error:
            raise MeterError(f"{self.path} has no {self._key.decode().strip()}") from error

    def close(self) -> None:
        self._file.close()


def _open_counter(
    folder: Path | None, forms: tuple[tuple[str, bytes, float], ...]
) -> _Counter | None:
    """The first form that answers: file name, key in it (empty for the whole), scale."""
    if folder is None:
        return None
    for name, key, scale in forms:
        try:
            counter = _Counter(KeptFile(folder / name), key, scale)
        except OSError:
            continue
        try:
            counter.read()
        except MeterError:
            counter.close()
            continue
        return counter
    return None


class CgroupMeter:
    """Reads the group's accounting files through kept descriptors."""

    name = _NAME
    # The run's own memory and time are read at every sample by `process_tree`.
    period_s = 0.5

    def __init__(self, limits: CgroupLimits) -> None:
        self._memory = _open_counter(
            limits.memory_path, (("memory.current", b"", 1), ("memory.usage_in_bytes", b"", 1))
        )
        self._cpu = _open_counter(
            limits.cpuacct_path, (("cpuacct.usage", b"", 1e-9), ("cpu.stat", b"usage_usec ", 1e-6))
        )
        self._throttled = _open_counter(
            limits.cpu_path,
            (("cpu.stat", b"throttled_usec ", 1e-6), ("cpu.stat", b"throttled_time ", 1e-9)),
        )
        self._limit_bytes = limits.memory_limit_bytes
        self._quota_cores = limits.cpu_quota_cores
        self._last: tuple[float, float] | None = None
        self._reads: list[Callable[[float], list[Value]]] = []
        self.quantities = (
            *self._memory_quantities(limits),
            *self._cpu_quantities(limits),
            self._throttled_quantity(limits),
        )

    def _memory_quantities(self, limits: CgroupLimits) -> list[Quantity]:
        columns = ("cgroup_memory_used_bytes", "cgroup_memory_load_fraction")
        if self._memory is None:
            return [_unavailable(c, limits.memory_path, "memory is not accounted") for c in columns]
        used = Quantity(
            column=columns[0],
            provenance="measured",
            source=self._memory.path,
            reason=_MEMORY_REASON,
            refresh_s=AT_EACH_READ,
            capacity=self._limit_bytes,
        )
        self._reads.append(self._read_memory)
        if self._limit_bytes is None:
            return [used, _unavailable(columns[1], limits.memory_path, "no limit set")]
        return [used, _fraction(columns[1], self._memory.path, _LIMIT_REASON)]

    def _cpu_quantities(self, limits: CgroupLimits) -> list[Quantity]:
        columns = ("cgroup_cpu_s", "cgroup_cpu_load_fraction")
        if self._cpu is None:
            reason = "processor time is not accounted"
            return [_unavailable(c, limits.cpuacct_path, reason) for c in columns]
        used = Quantity(
            column=columns[0],
            provenance="measured",
            source=self._cpu.path,
            refresh_s=AT_EACH_READ,
            cumulative=True,
        )
        self._reads.append(self._read_cpu)
        if self._quota_cores is None:
            return [used, _unavailable(columns[1], limits.cpu_path, "no quota set")]
        return [used, _fraction(columns[1], self._cpu.path, _QUOTA_REASON)]

    def _throttled_quantity(self, limits: CgroupLimits) -> Quantity:
        column = "cgroup_cpu_throttled_s"
        if self._throttled is None:
            return _unavailable(column, limits.cpu_path, "the group counts no throttling")
        self._reads.append(self._read_throttled)
        return Quantity(
            column=column,
            provenance="measured",
            source=self._throttled.path,
            refresh_s=AT_EACH_READ,
            cumulative=True,
        )

    def _read_memory(self, t_s: float) -> list[Value]:  # noqa: ARG002 - an instantaneous value
        assert self._memory is not None
        used = int(self._memory.read())
        if self._limit_bytes is None:
            return [used]
        return [used, min(1.0, used / self._limit_bytes) if self._limit_bytes else None]

    def _read_cpu(self, t_s: float) -> list[Value]:
        assert self._cpu is not None
        cpu_s = self._cpu.read()
        if self._quota_cores is None:
            return [cpu_s]
        last, self._last = self._last, (t_s, cpu_s)
        if last is None or t_s <= last[0] or cpu_s < last[1]:
            return [cpu_s, None]
        # Bursts and the reader's own jitter may put a short interval a little above the quota.
        return [cpu_s, min(1.0, (cpu_s - last[1]) / (t_s - last[0]) / self._quota_cores)]

    def _read_throttled(self, t_s: float) -> list[Value]:  # noqa: ARG002 - a plain counter
        assert self._throttled is not None
        return [self._throttled.read()]

    def read(self, t_s: float) -> list[Value]:
        """The available quantities in order; the processor fraction is None at the first read."""
        return [value for read in self._reads for value in read(t_s)]

    def close(self) -> None:
        """Give the descriptors back."""
        for counter in (self._memory, self._cpu, self._throttled):
            if counter is not None:
                counter.close()


def _unavailable(column: str, source: Path | None, reason: str) -> Quantity:
    return Quantity(
        column=column, provenance="unavailable", source=str(source or "cgroup"), reason=reason
    )


def _fraction(column: str, source: str, reason: str) -> Quantity:
    return Quantity(
        column=column,
        provenance="derived",
        source=source,
        refresh_s=AT_EACH_READ,
        reason=reason,
        capacity=1.0,
    )


def open_cgroup_meter(context: MeterContext) -> Meter:
    """The control group's use; absent where no group is mounted or none accounts anything."""
    limits = read_cgroup_limits(context.proc_root, context.sys_root)
    meter = CgroupMeter(limits)
    if any(quantity.provenance != "unavailable" for quantity in meter.quantities):
        return meter
    meter.close()
    mounted = "the control group accounts neither memory nor processor time"
    return AbsentMeter(
        name=_NAME,
        reason=mounted if limits.version else "no control group is mounted",
        source=str(context.proc_root / "self" / "cgroup"),
        columns=tuple(quantity.column for quantity in meter.quantities),
    )
