"""The control group's accounting in fake version 1 and version 2 trees."""

from pathlib import Path

import pytest

from trainload.errors import MeterError
from trainload.meters.cgroup import open_cgroup_meter
from trainload.meters.meter import AbsentMeter, Meter, MeterContext, available_columns


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def open_v2(root: Path, memory_max: str, cpu_max: str) -> tuple[Meter, Path]:
    write(root / "proc/self/cgroup", "0::/run\n")
    mount = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    write(root / "proc/self/mountinfo", mount)
    group = root / "sys/fs/cgroup/run"
    write(group / "memory.current", "500\n")
    write(group / "memory.max", memory_max)
    write(group / "cpu.max", cpu_max)
    write(group / "cpu.stat", "usage_usec 1000000\nuser_usec 7\nthrottled_usec 250000\n")
    context = MeterContext(proc_root=root / "proc", sys_root=root / "sys")
    return open_cgroup_meter(context), group


def test_v2_with_limits(tmp_path):
    meter, group = open_v2(tmp_path, "2000\n", "200000 100000\n")
    assert available_columns(meter) == [
        "cgroup_memory_used_bytes",
        "cgroup_memory_load_fraction",
        "cgroup_cpu_s",
        "cgroup_cpu_load_fraction",
        "cgroup_cpu_throttled_s",
    ]
    assert meter.quantities[0].capacity == 2000
    assert meter.read(10.0) == [500, 0.25, 1.0, None, 0.25]
    write(group / "cpu.stat", "usage_usec 2000000\nuser_usec 7\nthrottled_usec 500000\n")
    assert meter.read(11.0) == [500, 0.25, 2.0, 0.5, 0.5]
    meter.close()


def test_v2_without_limits(tmp_path):
    meter, _ = open_v2(tmp_path, "max\n", "max 100000\n")
    assert meter.read(0.0) == [500, 1.0, 0.25]
    reasons = {q.column: q.reason for q in meter.quantities if q.provenance == "unavailable"}
    assert reasons == {
        "cgroup_memory_load_fraction": "no limit set",
        "cgroup_cpu_load_fraction": "no quota set",
    }
    meter.close()


def test_v1(tmp_path):
    write(tmp_path / "proc/self/cgroup", "4:memory:/x\n3:cpu:/x\n2:cpuacct:/x\n")
    write(
        tmp_path / "proc/self/mountinfo",
        "".join(
            f"3{i} 31 0:3{i} / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}\n"
            for i, name in enumerate(("memory", "cpu", "cpuacct"))
        ),
    )
    base = tmp_path / "sys/fs/cgroup"
    write(base / "memory/x/memory.usage_in_bytes", "100\n")
    write(base / "memory/x/memory.limit_in_bytes", "400\n")
    write(base / "cpu/x/cpu.cfs_quota_us", "100000\n")
    write(base / "cpu/x/cpu.cfs_period_us", "100000\n")
    write(base / "cpu/x/cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_time 2000000000\n")
    write(base / "cpuacct/x/cpuacct.usage", "3000000000\n")
    meter = open_cgroup_meter(MeterContext(proc_root=tmp_path / "proc", sys_root=tmp_path / "sys"))
    assert meter.read(1.0) == [100, 0.25, 3.0, None, 2.0]
    write(base / "cpuacct/x/cpuacct.usage", "3500000000\n")
    assert meter.read(2.0)[2:4] == [3.5, 0.5]
    meter.close()


def test_a_file_that_loses_its_form_is_a_meter_error(tmp_path):
    meter, group = open_v2(tmp_path, "max\n", "max 100000\n")
    write(group / "memory.current", "?\n")
    with pytest.raises(MeterError, match=r"memory\.current"):
        meter.read(0.0)
    meter.close()


def test_absent_without_groups(tmp_path):
    meter = open_cgroup_meter(MeterContext(proc_root=tmp_path, sys_root=tmp_path))
    assert isinstance(meter, AbsentMeter)
    assert meter.reason == "no control group is mounted"


def test_this_machine():
    meter = open_cgroup_meter(MeterContext())
    assert len(meter.read(0.0)) == len(available_columns(meter))
    meter.close()
