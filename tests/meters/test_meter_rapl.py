"""RAPL zones in a fake powercap tree."""

import os
from pathlib import Path

import pytest

from trainload.meters.meter import AbsentMeter, MeterContext, available_columns
from trainload.meters.rapl import open_rapl_meter, reason_unreadable


def write_zone(root: Path, zone: str, name: str, energy_uj: int, range_uj: int | None) -> Path:
    folder = root / "class/powercap" / zone
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "energy_uj").write_text(f"{energy_uj}\n")
    if range_uj is not None:
        (folder / "max_energy_range_uj").write_text(f"{range_uj}\n")
    return folder


def test_every_zone_and_part_has_its_own_column(tmp_path):
    write_zone(tmp_path, "intel-rapl:0", "package-0", 1, 10)
    write_zone(tmp_path, "intel-rapl:0:0", "core", 1, 10)
    write_zone(tmp_path, "intel-rapl:0:1", "dram", 1, 10)
    write_zone(tmp_path, "intel-rapl:1", "package-1", 1, 10)
    write_zone(tmp_path, "intel-rapl:1:0", "core", 1, 10)
    write_zone(tmp_path, "intel-rapl:2", "psys", 1, 10)
    write_zone(tmp_path, "intel-rapl:3", "psys", 1, 10)
    write_zone(tmp_path, "intel-rapl-mmio:0", "package-0", 1, 10)
    (tmp_path / "class/powercap/intel-rapl").mkdir()
    meter = open_rapl_meter(MeterContext(sys_root=tmp_path))
    zones = ["package_0", "package_0_core", "package_0_dram", "package_1", "package_1_core"]
    zones += ["psys", "psys_2"]
    expected = [f"rapl_{zone}_{what}" for zone in zones for what in ("energy_j", "power_w")]
    assert available_columns(meter) == expected
    assert [q.cumulative for q in meter.quantities[:2]] == [True, False]
    meter.close()


def test_wrap_around(tmp_path):
    write_zone(tmp_path, "intel-rapl:0", "package-0", 9_000_000, 10_000_000)
    meter = open_rapl_meter(MeterContext(sys_root=tmp_path))
    assert meter.read(0.0) == [9.0, None]
    write_zone(tmp_path, "intel-rapl:0", "package-0", 2_000_000, 10_000_000)
    assert meter.read(0.5) == [12.0, 6.0]
    write_zone(tmp_path, "intel-rapl:0", "package-0", 3_000_000, 10_000_000)
    assert meter.read(1.0) == [13.0, 2.0]
    meter.close()


def test_a_wrap_of_unknown_range_is_missing_once(tmp_path):
    write_zone(tmp_path, "intel-rapl:0", "package-0", 9_000_000, None)
    meter = open_rapl_meter(MeterContext(sys_root=tmp_path))
    meter.read(0.0)
    write_zone(tmp_path, "intel-rapl:0", "package-0", 2_000_000, None)
    assert meter.read(1.0) == [None, None]
    write_zone(tmp_path, "intel-rapl:0", "package-0", 3_000_000, None)
    assert meter.read(2.0) == [10.0, None]
    meter.close()


def test_an_unreadable_zone_is_unavailable_and_the_others_are_not(tmp_path):
    write_zone(tmp_path, "intel-rapl:0", "package-0", 1_000_000, 10)
    (write_zone(tmp_path, "intel-rapl:1", "package-1", 1, 10) / "energy_uj").unlink()
    write_zone(tmp_path, "intel-rapl:2", "psys", 1, 10).joinpath("energy_uj").write_text("?")
    meter = open_rapl_meter(MeterContext(sys_root=tmp_path))
    assert available_columns(meter) == ["rapl_package_0_energy_j", "rapl_package_0_power_w"]
    assert meter.read(0.0) == [1.0, None]
    (tmp_path / "class/powercap/intel-rapl:0/energy_uj").write_text("")
    assert meter.read(1.0) == [None, None]
    meter.close()


def test_a_missing_permission_names_the_command_that_mends_it():
    path = Path("/sys/class/powercap/intel-rapl:0/energy_uj")
    reason = reason_unreadable(PermissionError(13, "Permission denied"), path)
    assert "sudo chmod a+r" in reason


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read any file")
def test_a_forbidden_zone(tmp_path):
    folder = write_zone(tmp_path, "intel-rapl:0", "package-0", 1, 10)
    (folder / "energy_uj").chmod(0)
    meter = open_rapl_meter(MeterContext(sys_root=tmp_path))
    assert "sudo chmod" in (meter.quantities[0].reason or "")
    meter.close()


def test_absent(tmp_path):
    assert isinstance(open_rapl_meter(MeterContext(sys_root=tmp_path)), AbsentMeter)
