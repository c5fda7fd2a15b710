"""Which processes descend from one; reads no quantity of theirs."""

import os
from pathlib import Path

from trainload.errors import MeterError
from trainload.meters._kept_file import KeptFile
from trainload.meters._process_stat import read_parent_pid

_SCAN_PERIOD_S = 1.0
_FULL_SCAN_EVERY = 30
"""A process id used again between two scans is noticed by the next full one."""


class TreeScan:
    """Keeps the set of process ids below a root, at most one scan a second.

    A scan is spared as long as /proc/loadavg shows the same newest process id: nothing was
    started anywhere on the machine.
    """

    def __init__(self, proc_root: Path, root_pid: int) -> None:
        self._proc_root = proc_root
        self._proc = str(proc_root)
        self._root_pid = root_pid
        self._children_files = os.path.exists(f"{self._proc}/{root_pid}/task/{root_pid}/children")  # noqa: PTH110 - one style of path in this file
        self._next_s: float | None = None
        self._examined: set[int] = set()
        self._scans = 0
        self._newest: bytes | None = None
        try:
            self._loadavg: KeptFile | None = KeptFile(proc_root / "loadavg", 256)
        except OSError:
            self._loadavg = None

    def due(self, t_s: float) -> bool:
        """Whether a scan at this time could find anything new."""
        if self._next_s is not None and t_s < self._next_s:
            return False
        self._next_s = t_s + _SCAN_PERIOD_S
        newest = self._read_newest()
        if newest is not None and newest == self._newest:
            return False
        self._newest = newest
        return True

    def scan(self, members: set[int]) -> set[int]:
        """Process ids that belong to the tree and are not in `members` yet."""
        if self._children_files:
            return self._descend() - members
        return self._scan_parents(members)

    def close(self) -> None:
        """Give the descriptor back."""
        if self._loadavg is not None:
            self._loadavg.close()

    def _read_newest(self) -> bytes | None:
        if self._loadavg is None:
            return None
        try:
            return self._loadavg.read().rpartition(b" ")[2]
        except MeterError:
            return None

    def _descend(self) -> set[int]:
        found: set[int] = set()
        waiting = [self._root_pid]
        while waiting:
            pid = waiting.pop()
            if pid in found:
                continue
            found.add(pid)
            # A child is listed with the thread that started it, so every thread is asked.
            for task in _numeric_names(f"{self._proc}/{pid}/task"):
                waiting += self._read_children(f"{self._proc}/{pid}/task/{task}/children")
        return found

    def _read_children(self, path: str) -> list[int]:
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - hot enough to spare the Path
                return [int(pid) for pid in file.read().split() if pid.isdigit()]
        except OSError:
            return []

    def _scan_parents(self, members: set[int]) -> set[int]:
        """By parent ids of all processes, for kernels without `children` files.

        Only ids not examined before are read: a process keeps its parent, or falls to a reaper
        when the parent ends.
        """
        if self._scans % _FULL_SCAN_EVERY == 0:
            self._examined.clear()
        self._scans += 1
        present = _numeric_names(self._proc)
        parents = {
            pid: read_parent_pid(self._proc_root, pid)
            for pid in present
            if pid not in self._examined
        }
        self._examined = set(present)
        found = {self._root_pid} if self._root_pid in parents else set()
        while True:
            grown = {
                pid
                for pid, parent in parents.items()
                if pid not in found and (parent in found or parent in members)
            }
            if not grown:
                return found - members
            found |= grown


def _numeric_names(folder: str) -> list[int]:
    try:
        return [int(name) for name in os.listdir(folder) if name.isdigit()]  # noqa: PTH208 - hot
    except OSError:
        return []
