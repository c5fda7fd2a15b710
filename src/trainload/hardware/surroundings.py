"""What of this machine a training may be set by: memory, units of the processor, the disk.

Read once, on request; what the system does not tell is None.
"""

import os
import platform
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

_BF16_FLAGS = ("amx_bf16", "avx512_bf16", "bf16")


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Settings around a training that its framework does not make."""

    huge_pages: str | None
    """The mode of transparent huge pages: always, madvise or never."""
    c_library: str | None
    """`glibc` where that is this system's C library."""
    bf16_units: bool | None
    """Whether the processor has units for bf16."""
    disk_free_bytes: int | None
    """Where the folder asked about lies."""
    disk_rotates: bool | None
    """Whether that disk says that it turns; None where it is no disk of this machine."""


def read_surroundings(
    folder: Path, proc_root: Path = Path("/proc"), sys_root: Path = Path("/sys")
) -> Surroundings:
    """The surroundings of a training whose data lie in a folder."""
    modes = _read(sys_root / "kernel" / "mm" / "transparent_hugepage" / "enabled")
    chosen = None if modes is None else re.search(r"\[(\w+)\]", modes)
    flags = _read(proc_root / "cpuinfo")
    told = None if flags is None else re.search(r"^(?:flags|Features)\s*:(.*)$", flags, re.M)
    try:
        free: int | None = shutil.disk_usage(folder).free
    except OSError:
        free = None
    return Surroundings(
        huge_pages=None if chosen is None else chosen[1],
        c_library=platform.libc_ver()[0] or None,
        bf16_units=None if told is None else bool({*told[1].split()} & {*_BF16_FLAGS}),
        disk_free_bytes=free,
        disk_rotates=_rotates(folder, sys_root),
    )


def _rotates(folder: Path, sys_root: Path) -> bool | None:
    try:
        number = folder.stat().st_dev
    except OSError:
        return None
    block = sys_root / "dev" / "block" / f"{os.major(number)}:{os.minor(number)}"
    for place in (block, block / ".."):  # a partition's disk stands above it
        text = _read(place / "queue" / "rotational")
        if text is not None:
            return text.strip() == "1"
    return None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
