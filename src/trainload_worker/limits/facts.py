"""What the system says of itself, as words: caches, sockets, page sizes, drives. Measures nothing.

What a file does not tell is left out.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Dict, List, Optional, Tuple

_CACHES = "sys/devices/system/cpu/cpu{core}/cache"
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def read_facts(folder: str, root: str = "/") -> Dict[str, str]:
    """All that is told; `folder` is where files are measured."""
    found: Dict[str, Optional[str]] = {
        "cpu": cpu_name(root),
        "sockets": _sockets(root),
        "page_bytes": str(os.sysconf("SC_PAGE_SIZE")),
        "huge_pages": _chosen(_text(root, "sys/kernel/mm/transparent_hugepage/enabled")),
        "clock_governor": _text(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "raid_arrays": _arrays(_text(root, "proc/mdstat")),
        "drive_kind": drive_kind(folder, root),
        "numa_nodes": _count(os.path.join(root, "sys/devices/system/node"), r"node\d+"),
        "pointer_bits": "64" if sys.maxsize > 1 << 32 else "32",
        **{f"{level.lower()}_bytes": str(size) for level, size in read_caches(root)},
    }
    return {name: value for name, value in found.items() if value}


def read_caches(root: str = "/", core: int = 0) -> List[Tuple[str, int]]:
    """Data caches of a core, nearest first, with their bytes: `L1 32768`; none where not told."""
    folder = os.path.join(root, _CACHES.format(core=core))
    found: Dict[str, int] = {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        place = f"{_CACHES.format(core=core)}/{name}"
        size = re.fullmatch(r"(\d+)([KMG])", _text(root, f"{place}/size") or "")
        if size is not None and _text(root, f"{place}/type") != "Instruction":
            level = _text(root, f"{place}/level") or "?"
            found[f"L{level}"] = int(size[1]) * _UNITS[size[2]]
    return sorted(found.items())


def cpu_name(root: str = "/") -> Optional[str]:
    """As the kernel gives it."""
    for line in (_text(root, "proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Hardware"):
            return value.strip()
    return None


def drive_kind(folder: str, root: str = "/") -> Optional[str]:
    """`rotating`, `solid state` or `memory`, of the drive that holds a folder; None if not told."""
    try:
        device = os.stat(folder).st_dev
    except OSError:
        return None
    numbers = f"{os.major(device)}:{os.minor(device)}"
    if _file_system(root, numbers) in ("tmpfs", "ramfs"):
        return "memory"
    place = f"sys/dev/block/{numbers}"
    for path in (f"{place}/queue/rotational", f"{place}/../queue/rotational"):
        told = _text(root, path)
        if told is not None:
            return "rotating" if told == "1" else "solid state"
    return None


def _file_system(root: str, numbers: str) -> Optional[str]:
    """Of the mount with these device numbers, by proc(5) mountinfo; None where not told."""
    for line in (_text(root, "proc/self/mountinfo") or "").splitlines():
        left, _, right = line.partition(" - ")
        if len(left.split()) > 2 and left.split()[2] == numbers:
            return right.split(" ")[0]
    return None


def _sockets(root: str) -> Optional[str]:
    ids = set()
    for line in (_text(root, "proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "physical id":
            ids.add(value.strip())
    return str(len(ids)) if ids else None


def _arrays(text: Optional[str]) -> str:
    return str(len(re.findall(r"^md\d+ : active", text or "", re.MULTILINE)))


def _chosen(text: Optional[str]) -> Optional[str]:
    found = re.search(r"\[(\w+)\]", text or "")
    return found[1] if found else None


def _count(folder: str, pattern: str) -> Optional[str]:
    if not os.path.isdir(folder):
        return None
    return str(sum(bool(re.fullmatch(pattern, name)) for name in os.listdir(folder)))


def _text(root: str, path: str) -> Optional[str]:
    try:
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None
