"""The highest memory this process reached since it was asked to watch; watches without cost.

The kernel and torch's allocator keep these figures anyway: they are reset once and read once.
Imports no framework: torch is asked only where the program has loaded it.
"""

from __future__ import annotations

import sys
from typing import Any

from trainload_worker.protocol.events import MemoryUse


class MemoryPeaks:
    """Peaks from its creation on; a figure is None where nothing tells it."""

    def __init__(self) -> None:
        self._reset = _reset_resident_peak()
        self._start_bytes = _read_status("VmRSS")
        cuda = _cuda()
        if cuda is not None:
            cuda.reset_peak_memory_stats()

    def read(self) -> MemoryUse:
        """Resident memory at the start and its peak since; torch's allocator on its device."""
        cuda = _cuda()
        return MemoryUse(
            start_rss_bytes=self._start_bytes,
            # Without the reset the kernel's figure may be of a time before the start.
            peak_rss_bytes=_read_status("VmHWM") if self._reset else None,
            peak_allocated_bytes=None if cuda is None else int(cuda.max_memory_allocated()),
            peak_reserved_bytes=None if cuda is None else int(cuda.max_memory_reserved()),
        )


def _cuda() -> Any:
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def _reset_resident_peak() -> bool:
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")  # proc(5): sets VmHWM to the present VmRSS
    except OSError:
        return False
    return True


def _read_status(name: str) -> int | None:
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith(f"{name}:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return None
