"""The control group this process lives in and its limits; reads files, changes no group.

Version 1, version 2 and hybrids are found through /proc/self/cgroup and /proc/self/mountinfo.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, TypeVar

_Number = TypeVar("_Number", int, float)
_NO_LIMIT_BYTES = 2**60
"""Version 1 writes "no limit" as the largest page-aligned number; nothing real is as large."""


@dataclass(frozen=True, kw_only=True)
class CgroupLimits:
    """Where the group's files are, and what it may use at most."""

    version: Literal["v1", "v2", "hybrid"] | None
    """None where no control group is mounted."""
    memory_path: Path | None
    """Folder that accounts the group's memory; None where none does."""
    cpu_path: Path | None
    """Folder with the processor quota and its throttling; None where there is none."""
    cpuacct_path: Path | None
    """Folder that accounts the group's processor time; None where none does."""
    memory_limit_bytes: int | None
    """Smallest limit from the group up to its mount's root; None where none is set."""
    cpu_quota_cores: float | None
    """Smallest quota along the same way, as a number of cores; None where none is set."""


@dataclass(frozen=True, kw_only=True)
class _Mount:
    folder: Path
    root: str
    """The group that the mount shows as its own root."""
    controllers: frozenset[str] | None
    """None for a version 2 mount."""


def read_cgroup_limits(
    proc_root: Path = Path("/proc"), sys_root: Path = Path("/sys")
) -> CgroupLimits:
    """The group of this process and its effective limits; all None where there is no group."""
    mounts = _read_mounts(proc_root / "self" / "mountinfo", sys_root)
    groups = _read_groups(proc_root / "self" / "cgroup")
    memory = _chain("memory", mounts, groups)
    cpu = _chain("cpu", mounts, groups)
    cpuacct = _chain("cpuacct", mounts, groups)
    return CgroupLimits(
        version=_version(mounts),
        memory_path=_first_with(memory, ("memory.current", "memory.usage_in_bytes")),
        cpu_path=_first_with(cpu, ("cpu.max", "cpu.cfs_quota_us", "cpu.stat")),
        cpuacct_path=_first_with(cpuacct, ("cpu.stat", "cpuacct.usage")),
        memory_limit_bytes=_smallest(memory, _memory_limit_bytes),
        cpu_quota_cores=_smallest(cpu, _cpu_quota_cores),
    )


def _version(mounts: list[_Mount]) -> Literal["v1", "v2", "hybrid"] | None:
    kinds = {mount.controllers is None for mount in mounts}
    if len(kinds) == 2:
        return "hybrid"
    return ("v2" if kinds.pop() else "v1") if kinds else None


def _read_mounts(mountinfo: Path, sys_root: Path) -> list[_Mount]:
    """Every control-group mount, in the form of proc(5) mountinfo."""
    mounts = []
    for line in _lines(mountinfo):
        left, separator, right = line.partition(" - ")
        before, after = left.split(), right.split()
        if not separator or len(before) < 5 or not after:
            continue
        if after[0] not in ("cgroup", "cgroup2"):
            continue
        options = frozenset(after[2].split(",")) if len(after) > 2 else frozenset()
        mounts.append(
            _Mount(
                folder=_under(sys_root, _unescape(before[4])),
                root=_unescape(before[3]),
                controllers=None if after[0] == "cgroup2" else options,
            )
        )
    return mounts


def _read_groups(path: Path) -> dict[str, str]:
    """Group by controller; version 2's single group under the empty name."""
    groups: dict[str, str] = {}
    for line in _lines(path):
        parts = line.split(":", 2)
        if len(parts) == 3:
            for controller in parts[1].split(","):
                groups[controller] = parts[2]
    return groups


def _chain(controller: str, mounts: list[_Mount], groups: dict[str, str]) -> list[Path]:
    """Folders of the group from the deepest that exists up to the mount's root.

    Version 1 wins where it has the controller: in a hybrid, version 2 then lacks it.
    """
    legacy = [m for m in mounts if m.controllers is not None and controller in m.controllers]
    unified = [m for m in mounts if m.controllers is None]
    for mount in legacy or unified:
        group = groups.get(controller if mount.controllers is not None else "")
        if group is not None and mount.folder.is_dir():
            return list(_existing(mount, group))
    return []


def _existing(mount: _Mount, group: str) -> Iterator[Path]:
    relative = PurePosixPath(group)
    if relative.is_relative_to(mount.root):
        relative = relative.relative_to(mount.root)
    parts = [part for part in relative.parts if part != "/"]
    if ".." in parts:  # a group outside our namespace: only the mount's root is ours to see
        parts = []
    # A container may see a path that its mount does not hold; its nearest ancestor stands in.
    for depth in range(len(parts), -1, -1):
        folder = mount.folder.joinpath(*parts[:depth])
        if folder.is_dir():
            yield folder


def _first_with(folders: list[Path], names: tuple[str, ...]) -> Path | None:
    """The deepest folder holding one of the files; an earlier name is looked for first."""
    for name in names:
        for folder in folders:
            if (folder / name).is_file():
                return folder
    return None


def _smallest(folders: list[Path], limit_of: Callable[[Path], _Number | None]) -> _Number | None:
    limits = [limit for folder in folders if (limit := limit_of(folder)) is not None]
    return min(limits, default=None)


def _memory_limit_bytes(folder: Path) -> int | None:
    for name in ("memory.max", "memory.limit_in_bytes"):
        words = _words(folder / name)
        if words and words[0].isdigit():
            limit = int(words[0])
            return limit if limit < _NO_LIMIT_BYTES else None
    return None


def _cpu_quota_cores(folder: Path) -> float | None:
    words = _words(folder / "cpu.max")
    if not words:
        words = _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
    if len(words) != 2 or not words[0].isdigit() or not words[1].isdigit():
        return None  # "max" in version 2, -1 in version 1
    quota, period = int(words[0]), int(words[1])
    return quota / period if quota and period else None


def _under(sys_root: Path, mount_point: str) -> Path:
    """The mount point below `sys_root`, where it lies in /sys at all."""
    path = PurePosixPath(mount_point)
    return sys_root / path.relative_to("/sys") if path.is_relative_to("/sys") else Path(path)


def _unescape(text: str) -> str:
    """mountinfo writes blanks as octal escapes."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []


def _words(path: Path) -> list[str]:
    lines = _lines(path)
    return lines[0].split() if lines else []
