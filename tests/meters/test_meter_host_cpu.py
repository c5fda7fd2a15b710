"""Core loads from a fake /proc/stat, and from the real one."""

import os
from pathlib import Path

import pytest

from trainload.errors import MeterError
from trainload.meters.host_cpu import PsutilCpuMeter, open_host_cpu_meter
from trainload.meters.meter import AbsentMeter, MeterContext, available_columns

TICKS = os.sysconf("SC_CLK_TCK")


def write_stat(root: Path, cores: dict[int, str]) -> None:
    rows = [[int(word) for word in text.split()] for text in cores.values()]
    total = " ".join(str(sum(column)) for column in zip(*rows, strict=True))
    lines = [f"cpu  {total}", *(f"cpu{i} {text}" for i, text in cores.items())]
    (root / "stat").write_text("\n".join([*lines, "intr 1 2 3", "ctxt 5", ""]))


def test_fractions_between_reads(tmp_path):
    write_stat(tmp_path, {0: "0 0 0 0 0 0 0 0 0 0", 1: "0 0 0 0 0 0 0 0 0 0"})
    meter = open_host_cpu_meter(MeterContext(proc_root=tmp_path))
    assert available_columns(meter) == [
        "host_cpu_load_fraction",
        "host_cpu0_load_fraction",
        "host_cpu1_load_fraction",
        "host_cpu_busy_s",
    ]
    assert meter.read(0.0) == [None, None, None, 0.0]
    # user 5 of which guest 5 (not counted twice), iowait 2 and idle 3 are not busy
    write_stat(tmp_path, {0: "5 0 0 3 2 0 0 0 5 0", 1: "1 1 1 4 0 1 1 1 0 0"})
    assert meter.read(0.1) == [11 / 20, 0.5, 0.6, 11 / TICKS]
    meter.close()
    meter.close()
    with pytest.raises(MeterError):
        meter.read(0.2)


def test_capacity_and_refresh_are_stated(tmp_path):
    write_stat(tmp_path, {0: "0 0 0 0 0 0 0 0 0 0"})
    meter = open_host_cpu_meter(MeterContext(proc_root=tmp_path))
    load, _, busy = meter.quantities
    assert (load.provenance, load.capacity, load.refresh_s) == ("derived", 1.0, 1 / TICKS)
    assert (busy.provenance, busy.cumulative) == ("measured", True)
    meter.close()


def test_a_counter_going_back_or_a_core_going_away_is_missing(tmp_path):
    write_stat(tmp_path, {0: "9 0 0 9 0 0 0 0 0 0", 1: "9 0 0 9 0 0 0 0 0 0"})
    meter = open_host_cpu_meter(MeterContext(proc_root=tmp_path))
    meter.read(0.0)
    write_stat(tmp_path, {0: "8 0 0 30 0 0 0 0 0 0"})
    assert meter.read(0.1)[:3] == [None, None, None]
    write_stat(tmp_path, {0: "9 0 0 30 0 0 0 0 0 0", 1: "1 0 0 30 0 0 0 0 0 0"})
    assert meter.read(0.2)[1:3] == [1.0, None]
    meter.close()


def test_no_time_passed_is_missing(tmp_path):
    write_stat(tmp_path, {0: "9 0 0 9 0 0 0 0 0 0"})
    meter = open_host_cpu_meter(MeterContext(proc_root=tmp_path))
    meter.read(0.0)
    assert meter.read(0.001)[:2] == [None, None]
    meter.close()


@pytest.mark.parametrize("text", [None, "", "cpu  x y z a b c\n", "intr 1\n"])
def test_an_unreadable_source_is_absent(tmp_path, text):
    if text is not None:
        (tmp_path / "stat").write_text(text)
    meter = open_host_cpu_meter(MeterContext(proc_root=tmp_path))
    assert isinstance(meter, AbsentMeter)
    assert meter.reason
    assert meter.read(0.0) == []


def test_a_text_that_changes_its_form_is_a_meter_error(tmp_path):
    write_stat(tmp_path, {0: "9 0 0 9 0 0 0 0 0 0"})
    meter = open_host_cpu_meter(MeterContext(proc_root=tmp_path))
    (tmp_path / "stat").write_text("cpu  a b c d e f g h\n")
    with pytest.raises(MeterError):
        meter.read(0.0)
    meter.close()


@pytest.mark.parametrize("make", [PsutilCpuMeter, lambda: open_host_cpu_meter(MeterContext())])
def test_this_machine(make):
    meter = make()
    first = meter.read(0.0)
    assert len(first) == len(meter.quantities)
    assert first[0] is None
    sum(i * i for i in range(400_000))
    *loads, busy_s = meter.read(0.1)
    assert all(load is None or 0 <= load <= 1 for load in loads)
    assert busy_s >= first[-1]
    meter.close()
