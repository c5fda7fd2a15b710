"""Control groups of every layout, found through fake /proc and /sys trees."""

from pathlib import Path

import pytest

from trainload.hardware.cgroup import read_cgroup_limits


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def fake_proc(root: Path, cgroup: str, mountinfo: str) -> Path:
    write(root / "proc/self/cgroup", cgroup)
    write(root / "proc/self/mountinfo", mountinfo)
    return root / "proc"


V2_MOUNT = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNTS = (
    "31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)


def test_v2_takes_the_smallest_limit_up_to_the_root(tmp_path):
    proc = fake_proc(tmp_path, "0::/user.slice/run.scope\n", V2_MOUNT)
    group = tmp_path / "sys/fs/cgroup/user.slice/run.scope"
    write(group / "memory.current", "1000\n")
    write(group / "memory.max", "max\n")
    write(group / "cpu.max", "400000 100000\n")
    write(group / "cpu.stat", "usage_usec 5\n")
    write(group.parent / "memory.max", "8000000\n")
    write(group.parent / "memory.current", "2000\n")
    write(group.parent / "cpu.max", "150000 100000\n")
    limits = read_cgroup_limits(proc, tmp_path / "sys")
    assert limits.version == "v2"
    assert limits.memory_path == limits.cpu_path == limits.cpuacct_path == group
    assert limits.memory_limit_bytes == 8_000_000
    assert limits.cpu_quota_cores == 1.5


def test_v2_without_any_limit(tmp_path):
    proc = fake_proc(tmp_path, "0::/a\n", V2_MOUNT)
    group = tmp_path / "sys/fs/cgroup/a"
    write(group / "memory.current", "1000\n")
    write(group / "memory.max", "max\n")
    write(group / "cpu.max", "max 100000\n")
    limits = read_cgroup_limits(proc, tmp_path / "sys")
    assert (limits.memory_limit_bytes, limits.cpu_quota_cores) == (None, None)


def test_v2_controller_not_delegated_to_the_leaf(tmp_path):
    proc = fake_proc(tmp_path, "0::/a/b\n", V2_MOUNT)
    write(tmp_path / "sys/fs/cgroup/a/memory.current", "7\n")
    write(tmp_path / "sys/fs/cgroup/a/b/cpu.stat", "usage_usec 5\n")
    limits = read_cgroup_limits(proc, tmp_path / "sys")
    assert limits.memory_path == tmp_path / "sys/fs/cgroup/a"
    assert limits.cpuacct_path == tmp_path / "sys/fs/cgroup/a/b"


def test_v1(tmp_path):
    proc = fake_proc(tmp_path, "4:memory:/docker/x\n2:cpu,cpuacct:/docker/x\n", V1_MOUNTS)
    memory = tmp_path / "sys/fs/cgroup/memory/docker/x"
    cpu = tmp_path / "sys/fs/cgroup/cpu,cpuacct/docker/x"
    write(memory / "memory.usage_in_bytes", "1\n")
    write(memory / "memory.limit_in_bytes", "9223372036854771712\n")
    write(memory.parent / "memory.limit_in_bytes", "4096000\n")
    write(cpu / "cpu.cfs_quota_us", "-1\n")
    write(cpu / "cpu.cfs_period_us", "100000\n")
    write(cpu.parent / "cpu.cfs_quota_us", "50000\n")
    write(cpu.parent / "cpu.cfs_period_us", "100000\n")
    write(cpu / "cpuacct.usage", "1\n")
    limits = read_cgroup_limits(proc, tmp_path / "sys")
    assert limits.version == "v1"
    assert (limits.memory_path, limits.cpu_path, limits.cpuacct_path) == (memory, cpu, cpu)
    assert limits.memory_limit_bytes == 4096000
    assert limits.cpu_quota_cores == 0.5


def test_hybrid_prefers_the_v1_controller(tmp_path):
    mounts = V1_MOUNTS + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    proc = fake_proc(tmp_path, "4:memory:/x\n0::/y\n", mounts)
    write(tmp_path / "sys/fs/cgroup/memory/x/memory.usage_in_bytes", "1\n")
    write(tmp_path / "sys/fs/cgroup/unified/y/memory.current", "1\n")
    limits = read_cgroup_limits(proc, tmp_path / "sys")
    assert limits.version == "hybrid"
    assert limits.memory_path == tmp_path / "sys/fs/cgroup/memory/x"
    assert limits.cpu_path is None


@pytest.mark.parametrize("group", ["/gone/deeper", "/../elsewhere"])
def test_a_group_the_mount_does_not_show_falls_to_its_ancestor(tmp_path, group):
    proc = fake_proc(tmp_path, f"0::{group}\n", V2_MOUNT)
    write(tmp_path / "sys/fs/cgroup/memory.current", "5\n")
    limits = read_cgroup_limits(proc, tmp_path / "sys")
    assert limits.memory_path == tmp_path / "sys/fs/cgroup"


def test_a_mount_of_a_subtree_strips_its_root(tmp_path):
    mount = V2_MOUNT.replace("0:26 / ", "0:26 /docker/x ")
    proc = fake_proc(tmp_path, "0::/docker/x/inner\n", mount)
    write(tmp_path / "sys/fs/cgroup/inner/memory.current", "5\n")
    limits = read_cgroup_limits(proc, tmp_path / "sys")
    assert limits.memory_path == tmp_path / "sys/fs/cgroup/inner"


def test_nothing_mounted(tmp_path):
    limits = read_cgroup_limits(tmp_path / "proc", tmp_path / "sys")
    assert limits.version is None
    assert limits.memory_path is limits.cpu_path is limits.memory_limit_bytes is None


def test_this_machine_answers():
    limits = read_cgroup_limits()
    assert limits.memory_limit_bytes is None or limits.memory_limit_bytes > 0
    assert limits.cpu_quota_cores is None or limits.cpu_quota_cores > 0
