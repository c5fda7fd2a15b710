"""Bytes that physical disks read and wrote, from /sys/block; counts no byte twice."""

from pathlib import Path

from trainload.errors import MeterError
from trainload.meters._kept_file import KeptFile
from trainload.meters.meter import AT_EACH_READ, AbsentMeter, Meter, MeterContext, Quantity, Value

_NAME = "disk"
_COLUMNS = ("disk_read_bytes", "disk_written_bytes")
_SECTOR_BYTES = 512  # the kernel's unit here, whatever the disk's own sector is
_LAYERED = ("loop", "ram", "zram", "dm-", "md")
"""Devices in memory or on top of others, whose bytes the disks below count already."""


class _Disk:
    """One device; keeps its last counts, so that unplugging it does not lower the sum."""

    def __init__(self, path: Path) -> None:
        self._file = KeptFile(path, 512)
        self.read_sectors = self.written_sectors = 0

    def update(self) -> None:
        try:
            fields = self._file.read().split()
            self.read_sectors, self.written_sectors = int(fields[2]), int(fields[6])
        except (MeterError, ValueError, IndexError):
            return

    def close(self) -> None:
        self._file.close()


class DiskMeter:
    """Reads each device's stat file: the same counters as /proc/diskstats, wanted disks only."""

    name = _NAME
    period_s = 0.5

    def __init__(self, disks: dict[str, _Disk], source: str) -> None:
        self._disks = list(disks.values())
        self.quantities = tuple(
            Quantity(
                column=column,
                provenance="measured",
                source=source,
                reason=f"summed over {', '.join(disks)}",
                refresh_s=AT_EACH_READ,
                cumulative=True,
            )
            for column in _COLUMNS
        )

    def read(self, t_s: float) -> list[Value]:  # noqa: ARG002 - plain counters
        """Bytes read and written since boot."""
        read = written = 0
        for disk in self._disks:
            disk.update()
            read += disk.read_sectors
            written += disk.written_sectors
        return [read * _SECTOR_BYTES, written * _SECTOR_BYTES]

    def close(self) -> None:
        """Give the descriptors back."""
        for disk in self._disks:
            disk.close()


def open_disk_meter(context: MeterContext) -> Meter:
    """Bytes of all physical disks; absent where the system shows none."""
    folder = context.sys_root / "block"
    disks: dict[str, _Disk] = {}
    try:
        for device in sorted(folder.iterdir()):
            if not device.name.startswith(_LAYERED) and (device / "stat").is_file():
                disks[device.name] = _Disk(device / "stat")
    except OSError:
        pass  # what could be opened counts; without any the meter is absent
    if disks:
        return DiskMeter(disks, f"{folder}/*/stat")
    reason = f"no physical disk under {folder}"
    return AbsentMeter(name=_NAME, reason=reason, source=f"{folder}/*/stat", columns=_COLUMNS)
