"""Suggestions for the machine one has: a gain only where something told it."""

import json
from dataclasses import replace

import pytest

from recommend.made_plans import made_plan, ranged
from trainload.hardware.limits import MachineLimits
from trainload.hardware.surroundings import read_surroundings
from trainload.recommend.here import HereFacts, PastRun, Reach, reach_of, suggest_here
from trainload_worker.protocol.measure import Measured, Reading

FACTS = HereFacts(
    allowed_cores=8,
    physical_cores=4,
    logical_cores=8,
    quota_cores=None,
    clusters={},
    memory_bytes=2**34,
    swap_bytes=2**30,
    huge_pages="madvise",
    c_library="glibc",
    bf16_units=False,
    disk_free_bytes=2**36,
    disk_rotates=True,
    needed_bytes=2**30,
    batch_size=32,
)
TOPICS = {
    "threads", "core set", "loader workers", "precision", "batch", "huge pages", "allocator",
    "swap", "disk",
}  # fmt: skip


def suggested(**changes):
    return {one.topic: one for one in suggest_here(replace(FACTS, **changes))}


def test_without_a_run_what_is_not_known_has_no_gain():
    found = suggested()
    assert set(found) == TOPICS
    assert found["threads"].option == "--threads 4" and found["threads"].gain is None
    assert found["loader workers"].gain is None and "trainload run" in found["loader workers"].basis
    assert found["batch"].option == "--batch-size 64" and found["batch"].gain is None
    unknown = [one for one in found.values() if one.gain is None]
    assert all(one.basis.startswith("not known") for one in unknown)
    assert all((one.trial is None) == (one.not_tried is not None) for one in found.values())
    assert found["precision"].gain == 0.0 and found["precision"].advice.startswith("float32")
    assert found["swap"].advice.startswith("plays no part: 1 GiB needed of 16 GiB")
    assert "THP_MEM_ALLOC_ENABLE" in found["huge pages"].advice


def test_a_run_tells_gains():
    past = PastRun(name="run", wait_fraction=0.4, quota_fraction=0.3, swapped_bytes=2.0**20)
    found = suggested(past=past, quota_cores=1.5)
    assert found["loader workers"].gain == 0.4 == found["disk"].gain
    assert found["threads"].option == "--threads 2" and found["threads"].gain == 0.3
    assert "1 MiB were swapped out" in found["swap"].advice
    ordered = [one.gain or 0.0 for one in suggest_here(replace(FACTS, past=past, quota_cores=1.5))]
    assert ordered == sorted(ordered, reverse=True)
    calm = suggested(past=replace(past, wait_fraction=0.001))
    assert calm["loader workers"].advice.startswith("as they are")


def test_the_allocator_is_told_to_keep_memory_where_page_faults_cost_time():
    unknown = suggested()["allocator"]
    assert unknown.gain is None and "MALLOC_MMAP_MAX_=0" in unknown.advice
    assert unknown.trial.base.sets == {} and not unknown.trial.keeps
    faulty = PastRun(name="run", paging_fraction=0.35, paging_read=True)
    found = suggested(past=faulty)["allocator"]
    assert found.gain == 0.35 and "35.0 % of run's processor time" in found.basis
    for little in (None, 0.02):
        calm = suggested(past=replace(faulty, paging_fraction=little))["allocator"]
        assert calm.gain == 0.0 and calm.advice.startswith("as it is") and calm.trial.keeps
    blind = suggested(past=PastRun(name="run"))["allocator"]
    assert blind.gain is None
    for other in (suggested(c_library=None), suggested(accelerator="gpu0")):
        assert other["allocator"].gain == 0.0 and other["allocator"].trial is None


def test_unlike_cores_and_units_of_the_processor():
    found = suggested(clusters={"big": 4, "little": 4}, bf16_units=True)
    assert found["core set"].option == "--setting big"
    assert found["precision"].option == "--precision bf16" and found["precision"].gain is None


def test_memory_that_is_short():
    found = suggested(needed_bytes=2**34)
    assert found["swap"].advice.startswith("a smaller batch: the step needs 16 GiB of 16 GiB")


def test_predicted_ways_of_an_accelerator():
    fast = replace(made_plan("l4"), batch_size=32, step_s=ranged(0.1))
    slow = replace(made_plan("l4", precision="tf32"), batch_size=32, step_s=ranged(0.2))
    large = replace(made_plan("l4"), batch_size=64, step_s=ranged(0.16))
    found = suggested(ways=(slow, fast, large))
    assert found["precision"].option == "--precision bf16"
    assert found["precision"].gain == pytest.approx(0.5)
    assert found["batch"].option == "--batch-size 64" and found["batch"].gain == pytest.approx(0.2)
    alone = suggested(ways=(slow, fast))
    assert alone["batch"].option is None and alone["batch"].gain == 0.0


REACH = Reach(
    taken_at="2026-05-04T03:02:01+00:00",
    threads=8,
    one_thread_flop_per_s=100e9,
    float32_flop_per_s=600e9,
    bf16_flop_per_s=1200e9,
    small_page_load_s=120e-9,
    huge_page_load_s=80e-9,
    drive_bytes_per_s=2.0**30,
)


def test_limits_of_the_machine_tell_gains_and_reasons():
    found = suggested(reach=REACH, bf16_units=True, physical_cores=8)
    assert found["precision"].gain == pytest.approx(0.5)
    assert "2.00 times the rate (detect --measure, 2026-05-04)" in found["precision"].basis
    assert "8 threads multiply matrices 6.00 times as fast as one" in found["threads"].basis
    assert found["huge pages"].gain is None and "in place of 120 ns" in found["huge pages"].basis
    assert "reads 1 GiB/s in order" in found["disk"].advice
    loaded = suggested(reach=replace(REACH, others_fraction=0.9), bf16_units=True)["precision"]
    assert "while others took 90 % of the cores" in loaded.basis
    slow = suggested(reach=replace(REACH, bf16_flop_per_s=300e9), bf16_units=True)["precision"]
    assert slow.option is None and slow.gain == 0.0 and slow.trial.keeps
    lacking = suggested(reach=replace(REACH, bf16_flop_per_s=None), bf16_units=True)["precision"]
    assert lacking.gain is None and "no rate of bf16" in lacking.basis


def test_reach_is_the_medians_of_kept_limits():
    def program(name, *readings):
        return Measured(name, "", tuple(Reading(at, values) for at, values in readings))

    cpu = {"device": "cpu", "dtype": "float32"}
    limits = MachineLimits(
        taken_at="2026-05-04",
        quick=True,
        facts={},
        measured=(
            program(
                "matrix-rate",
                ({**cpu, "threads": "1"}, (1.0, 2.0, 9.0)),
                ({**cpu, "threads": "4"}, (6.0,)),
                ({**cpu, "dtype": "bfloat16", "threads": "4"}, (8.0,)),
            ),
            program(
                "tlb-reach",
                ({"pages": "16", "page": "small"}, (1.0,)),
                ({"pages": "512", "page": "small"}, (5.0,)),
                ({"pages": "512", "page": "huge"}, (3.0,)),
            ),
            program("drive-read", ({"place": "drive", "pattern": "sequential"}, (7.0,))),
        ),
    )
    assert reach_of(limits) == Reach(
        taken_at="2026-05-04", threads=4, one_thread_flop_per_s=2.0, float32_flop_per_s=6.0,
        bf16_flop_per_s=8.0, small_page_load_s=5.0, huge_page_load_s=3.0, drive_bytes_per_s=7.0,
    )  # fmt: skip
    assert reach_of(replace(limits, measured=())) == Reach(taken_at="2026-05-04")


def test_what_is_the_codes_own_is_not_tried_and_says_so():
    found = suggested(batch_size=None, bf16_units=True)
    for topic in ("precision", "batch", "loader workers"):
        assert found[topic].trial is None and "code's own" in found[topic].not_tried
    assert found["threads"].trial is not None and found["core set"].trial is not None
    alone = suggested(allowed_cores=1, physical_cores=1, logical_cores=1)
    assert alone["threads"].not_tried == alone["core set"].not_tried == "one core can be used"


def test_fewer_cores_come_with_fewer_threads():
    trial = suggested()["core set"].trial
    assert trial.keeps and trial.other.sets == {"setting": "half", "threads": 4}
    big = suggested(clusters={"big": 2, "little": 6}, accelerator="gpu0")["core set"].trial
    assert not big.keeps and big.other.sets == {"setting": "big+gpu0", "threads": 2}


def test_surroundings_are_read_where_the_system_tells(tmp_path):
    mode = tmp_path / "sys/kernel/mm/transparent_hugepage/enabled"
    mode.parent.mkdir(parents=True)
    mode.write_text("always [madvise] never\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("flags\t\t: fpu avx512_bf16 sse\n")
    found = read_surroundings(tmp_path, tmp_path / "proc", tmp_path / "sys")
    assert found.huge_pages == "madvise" and found.bf16_units is True
    assert found.disk_free_bytes > 0 and found.disk_rotates is None
    nothing = read_surroundings(tmp_path / "no", tmp_path / "no", tmp_path / "no")
    assert nothing.huge_pages is None and nothing.bf16_units is None
    assert nothing.disk_free_bytes is None


def test_the_advice_shows_itself():
    from trainload.api.recommending.here import HereAdvice

    advice = HereAdvice(
        title="mlp", batch_size=32, machine="a machine", suggestions=suggest_here(FACTS)
    )
    text = advice.to_text()
    assert text.startswith("mlp, batch 32, on this machine: a machine") and "nothing" in text
    document = json.loads(json.dumps(advice.to_json()))
    assert {one["topic"] for one in document["suggestions"]} == TOPICS
