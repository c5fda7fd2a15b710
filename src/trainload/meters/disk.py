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


_READ_FIELD, _WRITTEN_FIELD = 2, 6  # Documentation/block/stat.rst
_KEPT_REASON = "one unplugged keeps its last count, so that the sum never falls"


class _Disk:
    """One device; keeps its last counts, so that unplugging it does not lower the sum."""

    def __init__(self, path: Path) -> None:
        self._file = KeptFile(path, 512)
        self.read_sectors: int | None = None
        self.written_sectors: int | None = None

    def update(self) -> None:
        """Read the sector counts: None for no number; a device that is gone keeps its last."""
        try:
            fields = self._file.read().split()
        except MeterError:
            return
        if fields:  # none: the device is gone
            self.read_sectors = _parse_count(fields, _READ_FIELD)
            self.written_sectors = _parse_count(fields, _WRITTEN_FIELD)

    def close(self) -> None:
        self._file.close()


def _parse_count(fields: list[bytes], position: int) -> int | None:
    try:
        return int(fields[position])
    except (ValueError, IndexError):
        return None


def _sum_bytes(sectors: list[int | None]) -> int | None:
    """Bytes of all disks; None where one count is missing: the rest is not the sum."""
    known = [count for count in sectors if count is not None]
    return sum(known) * _SECTOR_BYTES if len(known) == len(sectors) else None


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
                reason=f"summed over {', '.join(disks)}; {_KEPT_REASON}",
                refresh_s=AT_EACH_READ,
                cumulative=True,
            )
            for column in _COLUMNS
        )

    def read(self, t_s: float) -> list[Value]:  # noqa: ARG002 - plain counters
        """Bytes read and written since boot; None where a disk's count cannot be had."""
        for disk in self._disks:
            disk.update()
        return [
            _sum_bytes([disk.read_sectors for disk in self._disks]),
            _sum_bytes([disk.written_sectors for disk in self._disks]),
        ]

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
