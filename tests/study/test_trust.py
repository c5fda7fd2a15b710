"""Runs whose record contradicts itself do not count; other load is noticed."""

import math
from dataclasses import replace

import pytest

from trainload.record import StudyCell, load_manifest, open_run, save_manifest
from trainload.study.file import OtherLoad, StudyKeys
from trainload.study.ledger import Entry, judge_run, read_ledger
from trainload.study.state import StudyState
from trainload.study.trust import examine_run

CELL = StudyCell(study="s", cell="c", repetition=0)


def opened(path, **changes):
    manifest = load_manifest(path)
    save_manifest(path, replace(manifest, study=CELL, **changes))
    return open_run(path)


def test_a_sound_run_counts(make_run):
    run = opened(make_run())
    assert examine_run(run).doubts == ()
    entry = judge_run(run)
    assert entry.verdict == "counted" and entry.figures["step_s"] > 0 and entry.bytes > 0


def test_figures_that_are_no_numbers_are_missing(make_run):
    entry = judge_run(opened(make_run(nan_from_step=0)))
    assert entry.verdict == "counted" and all(map(math.isfinite, entry.figures.values()))


def test_an_early_stop_does_not_count(make_run):
    path = make_run()
    data = load_manifest(path).data
    run = opened(path, data=replace(data, total_steps=1000))
    assert examine_run(run).doubts[0] == "it stopped early: 300 of 1000 steps"
    assert judge_run(run).verdict == "untrusted"


def test_missing_epochs_do_not_count(make_run):
    path = make_run()
    workload = load_manifest(path).workload
    run = opened(path, workload=replace(workload, training=replace(workload.training, epochs=10)))
    assert "epochs are missing: 3 of 10" in examine_run(run).doubts


def test_a_clock_that_moved_does_not_count(make_run):
    path = make_run()
    clock = load_manifest(path).clock
    moved = replace(clock, start_wall_s=0.0, end_wall_s=clock.end_s - clock.start_s + 3600)
    assert any("slept" in doubt for doubt in examine_run(opened(path, clock=moved)).doubts)


def test_a_run_of_no_study_is_not_judged(make_run):
    assert judge_run(open_run(make_run())) is None


@pytest.mark.parametrize(
    ("outcome", "reason", "verdict"),
    [
        ("out_of_memory", "x", "result"),
        ("timed_out", "x", "result"),
        ("failed", "x", "failed"),
        ("killed", "signal 9", "failed"),
        ("killed", "the driver ended without closing the run", "lost"),
        ("interrupted", "Ctrl-C", "lost"),
    ],
)
def test_what_an_outcome_means(make_run, outcome, reason, verdict):
    assert judge_run(opened(make_run(outcome=outcome, reason=reason))).verdict == verdict


def entry(run, verdict="counted", **options):
    told = {"outcome": "completed", "duration_s": 1.0, "repetition": 0, **options}
    return Entry(run=run, cell="c", verdict=verdict, **told)


def test_a_disturbed_run_is_repeated_and_then_the_least_disturbed_counts():
    keys = StudyKeys(name="s", other_load=OtherLoad(limit_fraction=0.2, repeats=1))
    state = StudyState(keys, None)
    state.add(entry("a", other_load_fraction=0.3, duration_s=3.0))
    assert state.cells["c"].settled == 0
    state.add(entry("b", other_load_fraction=0.5, duration_s=5.0))
    assert state.cells["c"].settled == 1 and state.cells["c"].values == [3.0]
    calm = StudyState(keys, None)
    calm.take([entry("a", other_load_fraction=0.3), entry("b", other_load_fraction=0.0)])
    assert calm.cells["c"].repetitions[0].accepted == "b"
    assert (state.disturbed, calm.disturbed) == (1, 0)


def test_untrusted_runs_end_a_cell_only_after_their_repeats():
    state = StudyState(StudyKeys(name="s", untrusted_repeats=1), None)
    state.add(entry("a", "untrusted", doubts=("throttled",)))
    assert state.cells["c"].ending is None
    state.add(entry("b", "untrusted", doubts=("throttled",)))
    assert state.cells["c"].ending == "untrusted" and state.cells["c"].reason == "throttled"


def test_a_damaged_journal_is_read_as_far_as_it_goes(tmp_path):
    (tmp_path / "ledger.jsonl").write_bytes(
        b'{"start": {"cell": "c", "repetition": 0, "at_s": 1.0}}\n{"end": {"run": 3}}\n'
        b'[1]\n\xff\xfe\n{"start": {"cell": "d", "repetition": 1, "at_s": 2.0}}\n{"end": {"ru'
    )
    ended, refused, started = read_ledger(tmp_path)
    assert ended == {} and refused == [] and [one.cell for one in started] == ["c", "d"]
