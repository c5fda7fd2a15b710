"""Memory and swap of the whole host from /proc/meminfo; a control group's own is in `cgroup`."""

from pathlib import Path

from trainload.errors import MeterError
from trainload.meters._kept_file import KeptFile, render_os_error
from trainload.meters.meter import AT_EACH_READ, AbsentMeter, Meter, MeterContext, Quantity, Value

_NAME = "host_memory"
_COLUMNS = (
    "host_ram_used_bytes",
    "host_ram_load_fraction",
    "host_swap_used_bytes",
    "host_swap_load_fraction",
)


def meminfo_bytes(text: bytes, key: bytes) -> int | None:
    """One entry of a /proc/meminfo text, in bytes; None where it is not there."""
    start = text.find(key)
    if start < 0:
        return None
    end = text.find(b"kB", start)
    try:
        return int(text[start + len(key) : end]) * 1024
    except ValueError:
        return None


def _quantities(total: int, swap_total: int, source: str) -> tuple[Quantity, ...]:
    how = ("MemTotal - MemAvailable", "used over MemTotal") + (
        ("SwapTotal - SwapFree", "used over SwapTotal")
        if swap_total
        else ("no swap configured", "no swap configured")
    )
    capacities = (float(total), 1.0, float(swap_total) or None, 1.0 if swap_total else None)
    return tuple(
        Quantity(
            column=column,
            provenance="unavailable" if "swap" in column and not swap_total else "derived",
            source=source,
            refresh_s=AT_EACH_READ,
            reason=reason,
            capacity=capacity,
        )
        for column, reason, capacity in zip(_COLUMNS, how, capacities, strict=True)
    )


class MeminfoMeter:
    """Reads /proc/meminfo through one kept descriptor."""

    name = _NAME
    period_s = 0.0

    def __init__(self, path: Path) -> None:
        self._file = KeptFile(path)
        text = self._file.read()
        total = meminfo_bytes(text, b"MemTotal:")
        if not total or meminfo_bytes(text, b"MemAvailable:") is None:
            self._file.close()
            raise MeterError(f"{path} states no MemTotal or no MemAvailable (Linux 3.14 has both)")
        self._total = total
        self._swap_total = meminfo_bytes(text, b"SwapTotal:") or 0
        self.quantities = _quantities(total, self._swap_total, str(path))

    def read(self, t_s: float) -> list[Value]:  # noqa: ARG002 - an instantaneous value
        """Bytes and fraction in use, and the same of swap where there is any."""
        text = self._file.read()
        available = meminfo_bytes(text, b"MemAvailable:")
        used = None if available is None else self._total - available
        values: list[Value] = [used, None if used is None else used / self._total]
        if self._swap_total:
            free = meminfo_bytes(text, b"SwapFree:")
            swap = None if free is None else self._swap_total - free
            values += [swap, None if swap is None else min(1.0, swap / self._swap_total)]
        return values

    def close(self) -> None:
        """Give the descriptor back."""
        self._file.close()


class PsutilMemoryMeter:
    """The same quantities through psutil, for systems without /proc/meminfo."""

    name = _NAME
    period_s = 0.0

    def __init__(self) -> None:
        import psutil

        self._virtual_memory = psutil.virtual_memory
        self._swap_memory = psutil.swap_memory
        self._total = int(psutil.virtual_memory().total)
        self._swap_total = int(psutil.swap_memory().total)
        self.quantities = _quantities(
            self._total, self._swap_total, "psutil.virtual_memory, psutil.swap_memory"
        )

    def read(self, t_s: float) -> list[Value]:  # noqa: ARG002 - an instantaneous value
        """Bytes and fraction in use, and the same of swap where there is any."""
        used = self._total - int(self._virtual_memory().available)
        values: list[Value] = [used, used / self._total]
        if self._swap_total:
            swap = int(self._swap_memory().used)
            values += [swap, min(1.0, swap / self._swap_total)]
        return values

    def close(self) -> None:
        """Nothing to give back."""


def open_host_memory_meter(context: MeterContext) -> Meter:
    """The host's memory and swap in use; absent where there is no readable meminfo."""
    path = context.proc_root / "meminfo"
    try:
        return MeminfoMeter(path)
    except OSError as error:
        if context.proc_root == Path("/proc"):
            return PsutilMemoryMeter()
        reason = render_os_error(error)
    except MeterError as error:
        reason = str(error)
    return AbsentMeter(name=_NAME, reason=reason, source=str(path), columns=_COLUMNS)
