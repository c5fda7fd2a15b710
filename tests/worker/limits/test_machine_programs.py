"""Programs that measure a machine without a framework: what they count, and do without."""

import ctypes
import os
from dataclasses import replace

import pytest

from trainload_worker.limits import drives, facts, memory, native, programs
from trainload_worker.limits.others import OthersWatch
from trainload_worker.limits.sampling import Lacking, Place, key, sample_rounds
from trainload_worker.protocol.measure import MachineFacts, Measured, MeasureLack, Reading
from trainload_worker.protocol.spec import MeasureSpec, SettingSpec


@pytest.fixture
def place(tmp_path):
    cores = tuple(sorted(os.sched_getaffinity(0)))
    return Place(folder=str(tmp_path), cores=cores, quick=True, check=lambda: None)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    try:
        return native.load_kernels(str(tmp_path_factory.mktemp("kernels")))
    except Lacking as lack:
        pytest.skip(str(lack))


class Words(list):
    def write(self, event):
        self.append(event)
        return True


def levels(found, name):
    return {one.at[name] for one in found.readings}


@pytest.mark.parametrize(
    ("count", "stride", "shift"), [(64, 64, False), (100, 4096, True), (2, 64, False)]
)
def test_a_chase_meets_every_place_once(kernels, count, stride, shift):
    with kernels.take(count * stride) as block:
        kernels.link(block, count, stride, shift=shift)
        seen, at = [], block
        for _ in range(count):
            seen.append(at)
            at = ctypes.c_uint64.from_address(at).value
        assert at == block
        assert {(one - block) // stride for one in seen} == set(range(count))
        assert kernels.chase_s(block, 1000) > 0


def test_conditions_are_sampled_in_rounds_and_the_first_is_not_kept():
    calls = []

    def called(name):
        return lambda: calls.append(name) or float(len(calls))

    found = sample_rounds({key(a=1): called("a"), key(a=2): called("b")}, 2, lambda: None)
    assert calls == ["a", "b"] * 3
    assert found == [Reading({"a": "1"}, (3.0, 5.0)), Reading({"a": "2"}, (4.0, 6.0))]


def test_caches_are_read_and_small_sets_are_nearer_than_large_ones(kernels, place, monkeypatch):
    monkeypatch.setattr(memory, "_STEPS", 20_000)
    monkeypatch.setattr(memory, "_beyond_caches", lambda: 32 << 20)
    found = memory.measure_latency(place, kernels)
    by_size = {int(one.at["bytes"]): min(one.values) for one in found.readings}
    assert found.unit == "s" and by_size[64 << 20] > by_size[16 << 10] > 0
    rates = memory.measure_bandwidth(place, kernels)
    assert levels(rates, "kernel") == {"read", "triad"}
    assert levels(rates, "threads") >= {"1", str(len(place.cores))}
    assert all(value > 0 for one in rates.readings for value in one.values)


def test_pages_of_both_kinds_are_chased(kernels, place, monkeypatch):
    monkeypatch.setattr(memory, "_PAGES", (16, 64))
    found = memory.measure_tlb(place, kernels)
    assert levels(found, "page") == {"small", "huge"} and levels(found, "pages") == {"16", "64"}
    stalls = memory.measure_stalls(place, kernels)
    waiting = next(one for one in stalls.readings if one.at["what"] == "waiting")
    assert max(waiting.values) < 1


def test_a_drive_is_read_and_nothing_stays(place, tmp_path, monkeypatch):
    monkeypatch.setattr(drives, "_FILE", {True: 4 << 20})
    monkeypatch.setattr(drives, "_RANDOM_READS", 10)
    found = drives.measure_drive(place)
    assert {"drive", "cache"} <= levels(found, "place")
    assert all(value > 0 for one in found.readings for value in one.values)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(drives, "_FILE", {True: 1 << 60})
    with pytest.raises(Lacking, match="free"):
        drives.measure_drive(place)


def test_without_a_compiler_it_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(Lacking, match="no C compiler"):
        native.load_kernels(str(tmp_path))
    monkeypatch.setenv("CC", "/bin/false")
    with pytest.raises(Lacking, match="does not compile"):
        native.load_kernels(str(tmp_path))
    monkeypatch.setenv("CC", str(tmp_path / "none"))
    with pytest.raises(Lacking, match="does not run"):
        native.load_kernels(str(tmp_path))


def test_facts_are_the_systems_own_words(tmp_path):
    cache = tmp_path / "sys/devices/system/cpu/cpu0/cache"
    for index, (level, kind, size) in enumerate(
        [("1", "Data", "32K"), ("1", "Instruction", "64K"), ("2", "Unified", "1M")]
    ):
        folder = cache / f"index{index}"
        folder.mkdir(parents=True)
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(text + "\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(
        "model name\t: A CPU\nphysical id\t: 0\nmodel name\t: A CPU\nphysical id\t: 1\n"
    )
    (tmp_path / "proc/mdstat").write_text("Personalities : [raid0]\nmd0 : active raid0 a b\n")
    huge = tmp_path / "sys/kernel/mm/transparent_hugepage"
    huge.mkdir(parents=True)
    (huge / "enabled").write_text("always [madvise] never\n")
    found = facts.read_facts(str(tmp_path), str(tmp_path))
    assert found["cpu"] == "A CPU" and found["sockets"] == "2" and found["raid_arrays"] == "1"
    assert found["l1_bytes"] == "32768" and found["l2_bytes"] == str(1 << 20)
    assert found["huge_pages"] == "madvise" and "clock_governor" not in found
    assert facts.read_caches(str(tmp_path / "none")) == []


def test_others_are_what_the_cores_did_less_our_own(tmp_path, monkeypatch):
    now = iter([100.0, 110.0])
    monkeypatch.setattr("trainload_worker.limits.others.monotonic", lambda: next(now))
    (tmp_path / "proc").mkdir()
    stat, tick = tmp_path / "proc/stat", os.sysconf("SC_CLK_TCK")
    line = "cpu  9 9 9\ncpu0 {} 0 0 900 0 0 0 {}\ncpu1 0 0 0 0 0 0 0 0\ncpu2 {} 0 0 0 0 0 0 0\n"
    stat.write_text(line.format(0, 0, 0))
    watch = OthersWatch((0, 1), str(tmp_path))
    # Four seconds of users and two of a hypervisor's neighbours on our cores, in ten seconds.
    stat.write_text(line.format(4 * tick, 2 * tick, 9 * tick))
    assert watch.fraction() == pytest.approx(0.3, abs=0.02)
    assert OthersWatch((0,), str(tmp_path / "none")).fraction() is None


def test_files_in_memory_are_no_drive(place, tmp_path, monkeypatch):
    numbers = tmp_path.stat().st_dev
    line = f"36 35 {os.major(numbers)}:{os.minor(numbers)} / /tmp rw - {{}} none rw"
    mounts = tmp_path / "proc/self/mountinfo"
    mounts.parent.mkdir(parents=True)
    for system, expected in (("tmpfs", "memory"), ("ext4", None)):
        mounts.write_text("\n" + line.format(system) + "\n")
        assert facts.drive_kind(str(tmp_path), str(tmp_path)) == expected
    monkeypatch.setattr(drives, "drive_kind", lambda _folder: "memory")
    with pytest.raises(Lacking, match="TMPDIR"):
        drives.measure_drive(place)
    assert facts.drive_kind(str(tmp_path / "none")) is None


def spec_of(*names, limit_s=60.0):
    return MeasureSpec("e", "torch", names, "f", limit_s, SettingSpec())


def test_programs_go_on_after_one_that_cannot_measure(place, monkeypatch):
    done = Measured("drive-read", "bytes/s", ())

    def refuse():
        raise Lacking("torch cannot be imported")

    def fails(_place, _kernels):
        raise RuntimeError("no\nluck")

    monkeypatch.setitem(programs._PLAIN, "drive-read", lambda _place: done)
    monkeypatch.setitem(programs._COMPILED, "tlb-reach", fails)
    monkeypatch.setattr(programs, "load_kernels", lambda _folder: None)
    said = Words()
    names = ("tlb-reach", "matrix-rate", "drive-read")
    programs.run_programs(spec_of(*names), place, refuse, said)
    assert isinstance(said[0], MachineFacts)
    assert said[1:3] == [
        MeasureLack("tlb-reach", "RuntimeError: no luck"),
        MeasureLack("matrix-rate", "torch cannot be imported"),
    ]
    assert replace(said[3], others_fraction=None) == done
    said.clear()
    programs.run_programs(spec_of("drive-read", limit_s=-1.0), place, dict, said)
    assert "no time was left" in said[1].reason
    said.clear()
    programs.run_programs(spec_of("nothing"), place, dict, said)
    assert said[1] == MeasureLack("nothing", "this worker has no program nothing")
