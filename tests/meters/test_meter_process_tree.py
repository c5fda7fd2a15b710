"""The run's own process tree: fake trees for the arithmetic, real children for the life cycle."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainload.meters._process_stat import is_in_tree, parse_process_stat
from trainload.meters.meter import AbsentMeter, Meter, MeterContext, available_columns
from trainload.meters.process_tree import open_process_tree_meter

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def write_process(
    root: Path, pid: int, parent: int, ticks: int = 0, name: str = "python", state: str = "S"
) -> Path:
    folder = root / str(pid)
    folder.mkdir(exist_ok=True)
    fields = [state, parent, *[0] * 9, ticks, 0, 0, 0, 20, 0, 3, 0, 99, 1000, 50, 0, 0]
    (folder / "stat").write_text(f"{pid} ({name}) " + " ".join(map(str, fields)) + "\n")
    return folder


def read_columns(meter: Meter, t_s: float) -> dict[str, object]:
    return dict(zip(available_columns(meter), meter.read(t_s), strict=True))


def test_sums_over_a_tree_by_parent_ids(tmp_path):
    write_process(tmp_path, 10, 1, ticks=100)
    write_process(tmp_path, 12, 11, ticks=10, name="a) (b c")
    write_process(tmp_path, 11, 10, ticks=20)
    write_process(tmp_path, 20, 1, ticks=999)
    meter = open_process_tree_meter(MeterContext(proc_root=tmp_path, target_pid=10, cores=(0, 1)))
    first = read_columns(meter, 0.0)
    assert first == {
        "run_cpu_load_fraction": None,
        "run_cpu_s": pytest.approx(130 / TICKS),
        "run_rss_bytes": 150 * PAGE,
        "run_threads_count": 9,
        "run_processes_count": 3,
        "run_kernel_s": 0.0,
        "run_page_faults_count": 0,
    }
    write_process(tmp_path, 11, 10, ticks=20 + TICKS)
    write_process(tmp_path, 13, 10)
    second = read_columns(meter, 1.0)
    assert second["run_cpu_load_fraction"] == pytest.approx(0.5)
    assert second["run_processes_count"] == 4
    reasons = {q.column: q.reason for q in meter.quantities if q.provenance == "unavailable"}
    assert set(reasons) == {"run_read_bytes", "run_written_bytes", "run_pss_bytes"}
    meter.close()


def test_children_files_are_followed_where_the_kernel_has_them(tmp_path):
    for pid, parent, children in ((10, 1, "11 "), (11, 10, "12 "), (12, 11, ""), (13, 10, "")):
        folder = write_process(tmp_path, pid, parent)
        (folder / f"task/{pid}").mkdir(parents=True)
        (folder / f"task/{pid}/children").write_text(children)
    meter = open_process_tree_meter(MeterContext(proc_root=tmp_path, target_pid=10))
    # 13 is not listed as a child, so that the files, not the parent ids, must have been used.
    assert read_columns(meter, 0.0)["run_processes_count"] == 3
    meter.close()


def test_no_scan_while_no_process_was_started(tmp_path):
    write_process(tmp_path, 10, 1)
    (tmp_path / "loadavg").write_text("0.1 0.1 0.1 1/80 10\n")
    meter = open_process_tree_meter(MeterContext(proc_root=tmp_path, target_pid=10))
    read_columns(meter, 0.0)
    write_process(tmp_path, 11, 10)
    assert read_columns(meter, 2.0)["run_processes_count"] == 1
    (tmp_path / "loadavg").write_text("0.1 0.1 0.1 1/80 11\n")
    assert read_columns(meter, 2.5)["run_processes_count"] == 1  # at most one scan a second
    assert read_columns(meter, 3.0)["run_processes_count"] == 2
    meter.close()


def test_ended_members_are_dropped_and_counters_hold(tmp_path):
    write_process(tmp_path, 10, 1, ticks=5)
    write_process(tmp_path, 11, 10, ticks=70)
    meter = open_process_tree_meter(MeterContext(proc_root=tmp_path, target_pid=10))
    assert read_columns(meter, 0.0)["run_cpu_s"] == pytest.approx(75 / TICKS)
    (tmp_path / "11/stat").write_text("")
    shutil.rmtree(tmp_path / "11")
    after = read_columns(meter, 1.0)
    assert after["run_processes_count"] == 1
    assert after["run_cpu_s"] == pytest.approx(75 / TICKS)
    assert after["run_cpu_load_fraction"] == 0.0
    write_process(tmp_path, 10, 1, ticks=90, state="Z")
    last = read_columns(meter, 2.0)
    assert last["run_processes_count"] == 0
    assert last["run_rss_bytes"] is last["run_cpu_load_fraction"] is None
    assert last["run_cpu_s"] == pytest.approx(90 / TICKS)
    meter.close()


def test_storage_bytes_each_second_and_pss_more_seldom(tmp_path):
    folder = write_process(tmp_path, 10, 1)
    (folder / "io").write_text("rchar: 9\nwchar: 9\nread_bytes: 4096\nwrite_bytes: 512\n")
    (folder / "smaps_rollup").write_text("0-1 ---p 0 [rollup]\nRss:  8 kB\nPss:   6 kB\n")
    meter = open_process_tree_meter(MeterContext(proc_root=tmp_path, target_pid=10))
    keys = ("run_read_bytes", "run_written_bytes", "run_pss_bytes")

    def read(t_s: float) -> list[object]:
        row = read_columns(meter, t_s)
        return [row[key] for key in keys]

    assert read(0.0) == [4096, 512, 6144]
    assert read(0.5) == [None, None, None]
    (folder / "io").write_text("rchar: 9\nwchar: 9\nread_bytes: 4096\nwrite_bytes: 100\n")
    assert read(1.0) == [4096, 512, None]
    assert read(1000.0)[2] == 6144
    meter.close()


def test_absent_without_a_run_or_its_process(tmp_path):
    assert isinstance(open_process_tree_meter(MeterContext()), AbsentMeter)
    meter = open_process_tree_meter(MeterContext(proc_root=tmp_path, target_pid=4))
    assert isinstance(meter, AbsentMeter)
    assert "process 4" in meter.reason


@pytest.mark.parametrize("text", [b"", b"1", b"1 (a", b"1 (a) S 2 3", b"1 (a) " + b"x " * 30])
def test_a_stat_line_cut_short_is_missing(text):
    assert parse_process_stat(text) is None


def test_the_systems_part_and_page_faults_are_own_and_reaped():
    fields = ["S", 1, *[0] * 5, 7, 8, 9, 10, 100, 20, 30, 4, *[0] * 8]
    stat = parse_process_stat(b"5 (a) " + " ".join(map(str, fields)).encode())
    assert stat is not None
    assert (stat.cpu_ticks, stat.kernel_ticks, stat.page_faults) == (154, 24, 15)


def test_descent(tmp_path):
    write_process(tmp_path, 10, 1)
    write_process(tmp_path, 11, 10)
    write_process(tmp_path, 1, 0)
    assert is_in_tree(tmp_path, 11, 10)
    assert is_in_tree(tmp_path, 10, 10)
    assert not is_in_tree(tmp_path, 1, 10)
    assert not is_in_tree(tmp_path, 99, 10)


BURN = "import time\nend = time.monotonic() + {s}\nwhile time.monotonic() < end: pass\n"


def test_a_real_child_that_burns_and_ends():
    inner = BURN.format(s=0.5)
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {inner!r}])\n" + inner
    child = subprocess.Popen([sys.executable, "-c", code])
    meter = open_process_tree_meter(MeterContext(target_pid=child.pid))
    rows = []
    start_s = time.monotonic()
    try:
        while child.poll() is None and time.monotonic() - start_s < 60:
            rows.append(read_columns(meter, time.monotonic()))
            time.sleep(0.05)
    finally:
        child.kill()
        child.wait()
    rows.append(read_columns(meter, time.monotonic()))
    rows.append(read_columns(meter, time.monotonic() + 5))
    meter.close()
    cpu = [row["run_cpu_s"] for row in rows]
    assert cpu == sorted(cpu)
    assert cpu[-1] > 0.1
    assert max(row["run_cpu_load_fraction"] or 0 for row in rows) > 0
    assert max(row["run_rss_bytes"] or 0 for row in rows) > 1_000_000
    assert rows[-1]["run_processes_count"] == 0
    assert rows[-1]["run_rss_bytes"] is None
