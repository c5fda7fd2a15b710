"""What others take of the cores while a program measures: the kernel's count less our own.

A hypervisor's neighbours count as others. Reads two files; None where the system has none such.
"""

from __future__ import annotations

import os
from time import monotonic
from typing import Optional, Sequence, Tuple

_BUSY = (0, 1, 2, 5, 6, 7)
"""Columns of proc(5) stat: user, nice, system, irq, softirq, steal."""


class OthersWatch:
    """From when it is made until it is asked."""

    def __init__(self, cores: Sequence[int], root: str = "/") -> None:
        self._cores, self._path = set(cores), os.path.join(root, "proc/stat")
        self._begin = self._read()

    def fraction(self) -> Optional[float]:
        """Others' share of the cores; None where nothing told it or no time has passed."""
        end = self._read()
        if self._begin is None or end is None:
            return None
        wall_s, busy_s, own_s = (last - first for first, last in zip(self._begin, end))
        if wall_s <= 0:
            return None
        return min(max((busy_s - own_s) / (wall_s * len(self._cores)), 0.0), 1.0)

    def _read(self) -> Optional[Tuple[float, float, float]]:
        """Wall time, busy time of the cores, and that of this process and those it has ended."""
        names = {f"cpu{core}" for core in self._cores}
        ticks = 0
        try:
            with open(self._path, encoding="ascii") as file:
                for line in file:
                    name, *counts = line.split()
                    if name in names:
                        ticks += sum(int(counts[at]) for at in _BUSY if at < len(counts))
        except (OSError, ValueError):
            return None
        own = os.times()
        own_s = own.user + own.system + own.children_user + own.children_system
        return monotonic(), ticks / os.sysconf("SC_CLK_TCK"), own_s
