"""The peaks that a worker tells of itself: what was held for a moment is in them."""

import mmap
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from trainload_worker.process import memory_peaks
from trainload_worker.process.memory_peaks import MemoryPeaks

MIB = 1 << 20


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc/self/clear_refs"
)
def test_a_moment_of_memory_is_in_the_peak() -> None:
    peaks = MemoryPeaks()
    # Pages of its own: Python's heap may hold as much already, from what ran before.
    with mmap.mmap(-1, 64 * MIB) as held:
        for _ in range(64):
            held.write(b"x" * MIB)
    told = peaks.read()
    assert told.start_rss_bytes and told.peak_rss_bytes
    grown = told.peak_rss_bytes - told.start_rss_bytes
    assert 60 * MIB < grown < 90 * MIB


def test_a_peak_before_the_start_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> bool:
        return False

    monkeypatch.setattr(memory_peaks, "_reset_resident_peak", refused)
    assert MemoryPeaks().read().peak_rss_bytes is None


def test_the_allocator_is_asked_where_torch_has_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    torch = ModuleType("torch")
    torch.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        is_initialized=lambda: True,
        reset_peak_memory_stats=lambda: calls.append("reset"),
        max_memory_allocated=lambda: 3 * MIB,
        max_memory_reserved=lambda: 4 * MIB,
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    told = MemoryPeaks().read()
    assert calls == ["reset"]
    assert (told.peak_allocated_bytes, told.peak_reserved_bytes) == (3 * MIB, 4 * MIB)
