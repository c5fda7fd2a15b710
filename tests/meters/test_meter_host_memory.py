"""Memory and swap from a fake /proc/meminfo, and from the real one."""

from pathlib import Path

import pytest

from trainload.meters.host_memory import PsutilMemoryMeter, open_host_memory_meter
from trainload.meters.meter import AbsentMeter, MeterContext, available_columns


def write_meminfo(root: Path, swap_kb: int, available_kb: int = 750) -> None:
    (root / "meminfo").write_text(
        f"MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    {available_kb} kB\n"
        f"SwapCached:        0 kB\nSwapTotal:     {swap_kb} kB\nSwapFree:      {swap_kb // 2} kB\n"
    )


def test_memory_and_swap(tmp_path):
    write_meminfo(tmp_path, swap_kb=400)
    meter = open_host_memory_meter(MeterContext(proc_root=tmp_path))
    assert meter.read(0.0) == [250 * 1024, 0.25, 200 * 1024, 0.5]
    assert [q.capacity for q in meter.quantities] == [1000 * 1024, 1.0, 400 * 1024, 1.0]
    write_meminfo(tmp_path, swap_kb=400, available_kb=500)
    assert meter.read(0.1)[:2] == [500 * 1024, 0.5]
    meter.close()


def test_no_swap_is_unavailable_and_not_zero(tmp_path):
    write_meminfo(tmp_path, swap_kb=0)
    meter = open_host_memory_meter(MeterContext(proc_root=tmp_path))
    assert available_columns(meter) == ["host_ram_used_bytes", "host_ram_load_fraction"]
    assert [q.reason for q in meter.quantities[2:]] == ["no swap configured"] * 2
    assert len(meter.read(0.0)) == 2
    meter.close()


@pytest.mark.parametrize("text", [None, "MemTotal: 1000 kB\nMemFree: 10 kB\n"])
def test_absent(tmp_path, text):
    if text:
        (tmp_path / "meminfo").write_text(text)
    meter = open_host_memory_meter(MeterContext(proc_root=tmp_path))
    assert isinstance(meter, AbsentMeter)
    assert meter.reason


@pytest.mark.parametrize(
    "make", [PsutilMemoryMeter, lambda: open_host_memory_meter(MeterContext())]
)
def test_this_machine(make):
    meter = make()
    used, fraction = meter.read(0.0)[:2]
    assert 0 < used < meter.quantities[0].capacity
    assert 0 < fraction < 1
    meter.close()
