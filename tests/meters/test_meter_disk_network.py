"""Bytes of disks and network interfaces in fake trees, and on the real machine."""

import subprocess
from pathlib import Path

import pytest

from trainload.meters.disk import open_disk_meter
from trainload.meters.meter import AbsentMeter, Meter, MeterContext
from trainload.meters.network import open_network_meter


def write_disk(root: Path, name: str, read_sectors: int, written_sectors: int) -> None:
    folder = root / "block" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(f" 5 0 {read_sectors} 9 7 0 {written_sectors} 1 0 0 0\n")


def test_physical_disks_are_summed_and_layers_are_not(tmp_path):
    write_disk(tmp_path, "sda", 10, 4)
    write_disk(tmp_path, "nvme0n1", 1, 2)
    for layered in ("loop0", "ram1", "zram0", "dm-0", "md127"):
        write_disk(tmp_path, layered, 1000, 1000)
    meter = open_disk_meter(MeterContext(sys_root=tmp_path))
    assert meter.read(0.0) == [11 * 512, 6 * 512]
    (tmp_path / "block/sda/stat").write_text("")  # unplugged: its last counts stay
    write_disk(tmp_path, "nvme0n1", 2, 2)
    assert meter.read(0.1) == [12 * 512, 6 * 512]
    assert all(q.cumulative for q in meter.quantities)
    assert meter.quantities[0].reason == (
        "summed over nvme0n1, sda; one unplugged keeps its last count, so that the sum never falls"
    )
    meter.close()


def test_a_disk_never_read_makes_the_sum_missing(tmp_path):
    write_disk(tmp_path, "sda", 10, 4)
    write_disk(tmp_path, "sdb", 1, 2)
    (tmp_path / "block/sdb/stat").write_text("")
    meter = open_disk_meter(MeterContext(sys_root=tmp_path))
    assert meter.read(0.0) == [None, None]
    write_disk(tmp_path, "sdb", 1, 2)
    assert meter.read(0.1) == [11 * 512, 6 * 512]
    meter.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" 5 0 x 9 7 0 4 1\n", [None, 4 * 512]),
        (" 5 0 10 9 7 0 x 1\n", [10 * 512, None]),
        (" 5 0 10\n", [10 * 512, None]),
        ("nonsense\n", [None, None]),
    ],
)
def test_a_misstated_count_is_missing_in_its_own_column(tmp_path, text, expected):
    write_disk(tmp_path, "sda", 9, 3)
    meter = open_disk_meter(MeterContext(sys_root=tmp_path))
    assert meter.read(0.0) == [9 * 512, 3 * 512]
    (tmp_path / "block/sda/stat").write_text(text)
    assert meter.read(0.1) == expected
    meter.close()


def open_disk_that_goes_away(root: Path) -> tuple[Meter, subprocess.Popen[bytes]]:
    """A disk whose file is a process's: reads fail once the process is gone, as an unplugged's."""
    process = subprocess.Popen(["sleep", "60"])
    (root / "block/sda").mkdir(parents=True)
    (root / "block/sda/stat").symlink_to(f"/proc/{process.pid}/statm")  # seven whole numbers
    return open_disk_meter(MeterContext(sys_root=root)), process


def test_a_disk_that_stops_answering_keeps_its_last_counts(tmp_path):
    meter, process = open_disk_that_goes_away(tmp_path)
    try:
        first = meter.read(0.0)
    finally:
        process.kill()
        process.wait()
    assert None not in first
    assert meter.read(0.1) == first
    meter.close()


def test_a_disk_that_never_answered_has_no_counts(tmp_path):
    meter, process = open_disk_that_goes_away(tmp_path)
    process.kill()
    process.wait()
    assert meter.read(0.0) == [None, None]
    meter.close()


def test_no_disk_is_absent(tmp_path):
    assert isinstance(open_disk_meter(MeterContext(sys_root=tmp_path)), AbsentMeter)
    write_disk(tmp_path, "loop0", 1, 1)
    assert isinstance(open_disk_meter(MeterContext(sys_root=tmp_path)), AbsentMeter)


HEADER = (
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n"
)


def write_net(root: Path, **counts: tuple[int, int]) -> None:
    (root / "net").mkdir(exist_ok=True)
    lines = [f"{n:>6}: {r} 1 0 0 0 0 0 0 {s} 1 0 0 0 0 0 0\n" for n, (r, s) in counts.items()]
    (root / "net/dev").write_text(HEADER + "".join(lines))


def test_all_but_the_loopback(tmp_path):
    write_net(tmp_path, lo=(9, 9), eth0=(100, 10), tun0=(5, 5))
    meter = open_network_meter(MeterContext(proc_root=tmp_path, sys_root=tmp_path))
    assert meter.read(0.0) == [105, 15]
    write_net(tmp_path, lo=(9, 9), eth0=(200, 20))
    assert meter.read(0.1) == [205, 25]
    meter.close()


def test_interfaces_with_hardware_count_alone(tmp_path):
    (tmp_path / "class/net/eth0/device").mkdir(parents=True)
    write_net(tmp_path, lo=(9, 9), eth0=(100, 10), docker0=(50, 5))
    meter = open_network_meter(MeterContext(proc_root=tmp_path, sys_root=tmp_path))
    assert meter.read(0.0) == [100, 10]
    assert meter.quantities[0].reason == "summed over eth0"
    meter.close()


def test_only_the_loopback_is_unavailable(tmp_path):
    write_net(tmp_path, lo=(9, 9))
    meter = open_network_meter(MeterContext(proc_root=tmp_path, sys_root=tmp_path))
    assert {q.provenance for q in meter.quantities} == {"unavailable"}
    assert meter.read(0.0) == []
    meter.close()


def test_no_table_is_absent(tmp_path):
    assert isinstance(open_network_meter(MeterContext(proc_root=tmp_path)), AbsentMeter)


def test_this_machine():
    for opener in (open_disk_meter, open_network_meter):
        meter = opener(MeterContext())
        first, second = meter.read(0.0), meter.read(0.1)
        assert all(b >= a >= 0 for a, b in zip(first, second, strict=True))
        meter.close()
