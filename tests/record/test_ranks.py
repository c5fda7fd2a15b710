"""The record of several processes: each has its own lines and its own table of steps."""

import json
import os
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainload.errors import RecordError
from trainload.record import (
    Clock,
    LayerTracing,
    LineAppender,
    Manifest,
    WorkerFacts,
    create_run_directory,
    layout,
    open_run,
    parse_manifest,
    seal_run,
)
from trainload.record.manifest import manifest_json
from trainload.report.run.rows import rank_rows
from trainload.workload import RecordedScript
from trainload_worker.protocol.events import MemoryUse, Obtained, SettingTaken

START_S = 1000.0
MANIFEST = Manifest(
    created="2026-11-15T00:00:00+00:00",
    trainload_version="0.1.0",
    framework="torch",
    workload=RecordedScript(model="train", script=None),
    clock=Clock(start_s=START_S, start_wall_s=1.0e9),
    layers=LayerTracing(budget=0.03),
    processes=3,
)


def rank_lines(rank):
    """Hello, two lines of steps, a window, and the last word of one process."""
    window = layout.window_form(rank).format(index=0)
    return [
        {"kind": "hello", "t_s": START_S + 0.1, "python": "3.11", "software": {}},
        {"kind": "steps", "epoch": 0, "first_step": 1, "start_s": 1001.0 + rank,
         "end_s": [1001.5 + rank, 1002.0 + rank], "loss": [None, None]},
        {"kind": "window", "index": 0, "purpose": "time", "file": window, "device": "cpu",
         "first_step": 1, "last_step": 2, "disturbed": [0, 3], "begin_s": 1001.0 + rank,
         "end_s": 1002.0 + rank, "cost_s": 0.01},
        {"kind": "steps", "epoch": 0, "first_step": 3, "start_s": 1002.0 + rank,
         "end_s": [1003.0 + rank], "loss": [None]},
        {"kind": "rank_end", "outcome": "completed", "reason": None, "t_s": 1003.0 + rank,
         "events_lost": 0},
    ]  # fmt: skip


def fill(path, ranks):
    for rank in ranks:
        appender = LineAppender(path / layout.events_file(rank))
        for line in rank_lines(rank):
            assert appender.append(line)
        appender.close()
        events = f'{{"schemaVersion": 1, "traceEvents": [{{"ph": "X", "name": "of {rank}"}}'
        name = layout.window_form(rank).format(index=0)
        (path / name).write_text(events + '],"traceName": "x"}')


@pytest.fixture
def run(tmp_path):
    made = create_run_directory(tmp_path, "train", MANIFEST)
    fill(made.path, (0, 1))  # the third ended before its first word
    return made


def test_each_process_tells_its_part_of_the_setting_and_its_memory():
    def facts(cores, threads, peak):
        made = WorkerFacts(start_s=START_S)
        note = ("seen by all",)
        made.add(SettingTaken(Obtained(cores=cores, threads=threads, device="cpu", notes=note)))
        made.add(MemoryUse(peak_rss_bytes=peak))
        return made

    manifest = replace(MANIFEST, processes=2)
    first, second = facts((0, 1), 2, 10), facts((2,), 1, 20)
    back = first.written_into(manifest, {1: second})
    obtained = back.setting.obtained
    assert (obtained.cores, obtained.threads, obtained.notes) == ((0, 1, 2), 3, ("seen by all",))
    assert obtained.accelerators is None and back.memory.peak_rss_bytes == 10
    assert [rank.memory.peak_rss_bytes for rank in back.ranks] == [10, 20]
    assert [rank.obtained.cores for rank in back.ranks] == [(0, 1), (2,)]
    again = parse_manifest(json.dumps(manifest_json(back)), "the test's record")
    assert again.ranks == back.ranks
    rows = dict(rank_rows(back.ranks))
    assert rows["rank 1"] == "cores 2; 1 threads; device cpu; peak 20 bytes resident"
    # One that never spoke leaves its place empty, and what is known is the first one's.
    partly = first.written_into(replace(MANIFEST, processes=3), {2: second})
    assert [rank.obtained is None for rank in partly.ranks] == [False, True, False]
    assert partly.setting.obtained == first.obtained
    assert dict(rank_rows(partly.ranks))["rank 1"] == "not known"
    alone = first.written_into(replace(MANIFEST, processes=1), {})
    assert alone.ranks == () and alone.setting.obtained == first.obtained


def check_tables(back):
    assert back.steps_of(0).equals(back.steps)
    assert back.steps_of(1).columns == back.steps.columns
    assert back.steps_of(1)["step"].to_list() == [1, 2, 3]
    assert back.steps_of(1)["start_s"].to_list() == pytest.approx([2.0, 2.5, 3.0])
    assert back.steps_of(2).height == 0 and back.steps_of(2).columns == back.steps.columns
    for rank in (-1, 3):
        with pytest.raises(RecordError, match=f"has no rank {rank}; it ran in 3"):
            back.steps_of(rank)


def test_every_process_has_its_own_table_and_trace(run):
    run.close(replace(run.manifest, outcome="completed"))
    check_tables(open_run(run.path, seal=False))
    back = open_run(run.path)
    check_tables(back)
    assert back.manifest.processes == 3 and back.manifest.damaged_lines == 0
    assert sorted(back.traces) == [0, 1]
    left = {path.name for path in run.path.iterdir()}
    assert left == {
        "run.json", "steps.parquet", "steps-r1.parquet", "epochs.parquet", "samples.parquet",
        "trace.json.gz", "trace-r1.json.gz",
    }  # fmt: skip


def test_a_run_without_the_field_is_of_one_process(run):
    document = json.loads((run.path / layout.MANIFEST).read_text())
    del document["processes"]
    (run.path / layout.MANIFEST).write_text(json.dumps(document))
    assert open_run(run.path).manifest.processes == 1


def test_the_end_of_one_process_is_not_the_end_of_the_run(run):
    run.lock.free()
    back = open_run(run.path)
    assert back.manifest.outcome == "killed" and not back.manifest.training_completed
    assert back.manifest.outcome_reason == "the driver ended without closing the run"
    # Until the last word of the last process.
    assert back.manifest.clock.end_s == pytest.approx(1004.0)


def test_the_launcher_s_word_is_the_run_s_where_the_driver_is_gone(run):
    appender = LineAppender(run.path / layout.EVENTS)
    appender.append({"kind": "end", "outcome": "failed", "reason": "rank 1: boom", "t_s": 1005.0})
    appender.close()
    run.lock.free()
    manifest = open_run(run.path).manifest
    assert (manifest.outcome, manifest.outcome_reason) == ("failed", "rank 1: boom")


def test_sealing_again_after_a_crash_in_between(run):
    run.close(replace(run.manifest, outcome="completed"))
    (run.path / layout.steps_table(1)).write_bytes(b"half a table")
    assert seal_run(run.path).sealed
    check_tables(open_run(run.path))
    (run.path / layout.events_file(1)).write_bytes(b"left over")  # crash before the removal
    assert seal_run(run.path).sealed
    assert not (run.path / layout.events_file(1)).exists()
    check_tables(open_run(run.path))


def test_what_was_not_seen_of_a_process_is_a_warning(run):
    appender = LineAppender(run.path / layout.events_file(1))
    appender.append({"kind": "probe", "state": "failed", "reason": "clock broke", "t_s": 1003.0})
    appender.append({"kind": "layers", "state": "failed", "reason": "too many", "t_s": 1003.0})
    appender.close()
    run.lock.free()
    assert open_run(run.path).manifest.warnings == (
        "rank 1: steps were no longer seen: clock broke",
        "rank 1: layers were no longer traced: too many",
    )


LENGTH = sum(len(json.dumps(line)) for line in rank_lines(1))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=30)
@given(st.lists(st.integers(0, LENGTH), min_size=3, max_size=3), st.binary(max_size=8))
def test_lines_cut_anywhere_read_back(tmp_path_factory, lengths, rubbish):
    run = create_run_directory(tmp_path_factory.mktemp("cut"), "train", MANIFEST)
    fill(run.path, range(3))
    for rank, length in enumerate(lengths):
        path = run.path / layout.events_file(rank)
        path.write_bytes(path.read_bytes()[:length] + rubbish)
        os.utime(path, (0, 0))  # long quiet: nobody writes any more
    run.lock.free()
    back = open_run(run.path)
    assert back.manifest.sealed and back.manifest.outcome == "killed"
    for rank in range(3):
        assert back.steps_of(rank)["step"].to_list() in ([], [1, 2], [1, 2, 3])


def test_names_of_files_tell_their_rank():
    for rank in (0, 1, 12):
        for name in (layout.events_file, layout.steps_table, layout.trace_file):
            assert layout.rank_of(name(rank)) == rank
    assert layout.rank_of("samples.jsonl") is None


def test_processes_are_kept_by_a_change(run):
    assert replace(MANIFEST, sealed=True).processes == 3
    run.save(replace(run.manifest, warnings=("x",)))
    assert open_run(run.path, seal=False).manifest.processes == 3
