"""Run directories: created, closed, abandoned, sealed, read back, and damaged in every way."""

import json
import os
import resource
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainload.errors import RecordError, RecordIncomplete, RecordTooNew, RecordTooOld
from trainload.record import (
    SAMPLE_HEAD,
    Clock,
    DirectoryLock,
    LineAppender,
    Manifest,
    create_run_directory,
    layout,
    load_manifest,
    open_run,
    parse_manifest,
    save_manifest,
    seal_run,
)
from trainload.record.manifest import manifest_json
from trainload.record.parts import Phase
from trainload.workload import RecordedGraph

START_S = 1000.0


def first_manifest():
    return Manifest(
        created="2026-11-15T00:00:00+00:00",
        trainload_version="0.1.0",
        framework="fake",
        workload=RecordedGraph(model="mlp", graph=None),
        clock=Clock(start_s=START_S, start_wall_s=1.0e9),
    )


def write_lines(path, *values):
    appender = LineAppender(path)
    for value in values:
        assert appender.append(value)
    appender.close()


def fill(path):
    write_lines(
        path / layout.EVENTS,
        {"kind": "hello", "t_s": 1000.1, "python": "3.11", "framework": "fake", "software": {}},
        {"kind": "phase", "name": "train", "edge": "begin", "t_s": 1001.0},
        {"kind": "steps", "epoch": 0, "first_step": 0, "start_s": 1001.0,
         "end_s": [1001.5, 1002.0], "loss": [2.0, None]},
        {"kind": "epoch", "epoch": 0, "start_s": 1001.0, "end_s": 1002.0,
         "validation_start_s": 1002.0, "validation_end_s": 1002.25, "steps": 2,
         "train_loss": 2.0, "validation": {"loss": 1.5, "accuracy": 0.5}},
    )  # fmt: skip
    write_lines(
        path / layout.SAMPLES,
        {"columns": [*SAMPLE_HEAD, "host_cpu_load_fraction"]},
        [0, 1001.0, 0.0001, 0.001, None],
        [1, 1001.1, 0.0001, 0.002, 0.5],
        {"stats": {"samples": 2}},
    )


@pytest.fixture
def running(tmp_path):
    run = create_run_directory(tmp_path, "mlp", first_manifest())
    fill(run.path)
    return run


def close(run, outcome, **changes):
    run.close(replace(run.manifest, outcome=outcome, **changes))


def test_a_completed_run_is_sealed_and_read_back(running):
    close(running, "completed", clock=replace(running.manifest.clock, end_s=1003.0))
    assert not (running.path / layout.RESERVE).exists()
    before = open_run(running.path, seal=False)
    run = open_run(running.path)
    assert run.manifest.sealed and run.manifest.outcome == "completed"
    assert not (run.path / layout.EVENTS).exists() and not (run.path / layout.SAMPLES).exists()
    for one in (before, run):
        assert one.steps["step_s"].to_list() == pytest.approx([0.5, 0.5])
        assert one.steps["loss"].to_list() == [2.0, None]
        assert one.steps["start_s"].to_list() == pytest.approx([1.0, 1.5])
        assert one.epochs["validation_s"].to_list() == pytest.approx([0.25])
        assert one.epochs["validation_f1_macro"].to_list() == [None]
        assert one.samples["t_s"].to_list() == pytest.approx([1.0, 1.1])
        assert one.samples["host_cpu_load_fraction"].to_list() == [None, 0.5]


def test_a_held_run_is_running_and_not_sealed(running):
    run = open_run(running.path)
    assert run.running and run.steps.height == 2
    with pytest.raises(RecordError, match="still running"):
        seal_run(running.path)


@pytest.mark.parametrize(
    ("end", "outcome", "words"),
    [
        (None, "killed", "without closing"),
        ({"outcome": "completed"}, "killed", "the training had finished"),
        ({"outcome": "interrupted", "reason": "x"}, "killed", "without closing"),
        ({"outcome": "failed", "reason": "boom"}, "failed", "boom"),
        ({"outcome": "out_of_memory", "reason": "no room"}, "out_of_memory", "no room"),
    ],
)
def test_an_abandoned_run_is_closed_by_its_reader(running, end, outcome, words):
    if end:
        write_lines(running.path / layout.EVENTS, {"kind": "end", "t_s": 1002.5, **end})
    running.lock.free()  # as the system does when the driver dies
    run = open_run(running.path)
    assert run.manifest.outcome == outcome and words in run.manifest.outcome_reason
    assert run.manifest.clock.end_s == pytest.approx(1002.5 if end else 1002.25)
    assert run.manifest.sealed and run.steps.height == 2


def test_an_abandoned_run_that_may_not_be_written_is_not_shown_as_running(running):
    running.lock.free()
    before = (running.path / layout.MANIFEST).read_bytes()
    run = open_run(running.path, seal=False)
    assert run.manifest.outcome == "killed" and run.steps.height == 2
    assert (running.path / layout.MANIFEST).read_bytes() == before


def test_sealing_again_after_a_crash_in_between(running):
    close(running, "completed")
    (running.path / layout.STEPS_TABLE).write_bytes(b"half a table")
    assert seal_run(running.path).sealed
    assert open_run(running.path).steps.height == 2
    (running.path / layout.EVENTS).write_bytes(b"left over")  # crash before the removal
    assert seal_run(running.path).sealed
    assert not (running.path / layout.EVENTS).exists()


def test_a_restarted_sampler_joins_the_same_table(running):
    write_lines(
        running.path / layout.SAMPLES,
        {"columns": [*SAMPLE_HEAD, "host_cpu_load_fraction", "gpu0_power_w"]},
        [0, 1002.0, 0.0001, 0.001, 0.25, 300],
    )
    close(running, "killed", outcome_reason="x")
    samples = open_run(running.path).samples
    assert samples["gpu0_power_w"].to_list() == [None, None, 300]


def test_damaged_lines_are_counted_and_the_rest_is_kept(running):
    with (running.path / layout.SAMPLES).open("ab") as file:
        file.write(b'[2,1001.2,oops,0.1,0.7]\n[3,1001.3]\n{"x"\n[4,1001.4,0.1,0.1,0.9]\n[5,10')
    with (running.path / layout.EVENTS).open("ab") as file:
        file.write(b'{"kind":"steps","epoch":0,"first_step":2,"start_s":"x"}\n\x00\xff\n')
    close(running, "failed", outcome_reason="disk full")
    run = open_run(running.path)
    assert run.samples["host_cpu_load_fraction"].to_list() == [None, 0.5, 0.9]
    assert run.steps.height == 2
    assert run.manifest.damaged_lines == 6


def test_many_runs_started_at_the_same_moment(tmp_path):
    barrier = threading.Barrier(8)

    def start(_):
        barrier.wait()
        return create_run_directory(tmp_path / "runs", "mlp", first_manifest()).path

    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(start, range(8)))
    assert len(set(paths)) == 8
    assert {load_manifest(p).run_id for p in paths} == {p.name for p in paths}


def test_wrong_places_give_one_clear_line(tmp_path):
    with pytest.raises(RecordError, match="no such run"):
        open_run(tmp_path / "nowhere")
    with pytest.raises(RecordIncomplete, match=r"no run\.json"):
        open_run(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(RecordError, match="is no directory"):
        open_run(tmp_path / "file")
    with pytest.raises(RecordError, match="choose another with --out"):
        create_run_directory(tmp_path / "file" / "runs", "mlp", first_manifest())


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", RecordError, "damaged"),
        ("[]", RecordError, "not a JSON object"),
        ("{}", RecordError, "no format number"),
        ('{"format": 99}', RecordTooNew, "upgrade trainload"),
        ('{"format": 0}', RecordTooOld, "oldest"),
    ],
)
def test_wrong_manifests(text, error, message):
    with pytest.raises(error, match=message):
        parse_manifest(text, "run.json")


def test_a_manifest_that_says_nothing_opens_with_everything_missing():
    manifest = parse_manifest('{"format": 1}', "run.json")
    assert manifest.notes == ()
    assert (manifest.run_id, manifest.workload, manifest.machine, manifest.clock) == (None,) * 4
    assert (manifest.model_name, manifest.batch_size, manifest.outcome) == (None,) * 3
    assert manifest.data.total_steps is None and manifest.memory.peak_rss_bytes is None


def test_wrong_values_are_missing_and_told():
    document = {
        "format": 1,
        "run_id": 7,
        "clock": {"start_s": "soon"},
        "data": {"train_rows": 5, "total_steps": "many"},
        "phases": [{"name": "train"}, {"name": "train", "start_s": 1.0}],
    }
    manifest = parse_manifest(json.dumps(document), "run.json")
    assert manifest.run_id is None and manifest.clock is None
    assert (manifest.data.train_rows, manifest.data.total_steps) == (5, None)
    assert manifest.phases == (Phase(name="train", start_s=1.0),)
    assert len(manifest.notes) == 4
    for note, words in zip(
        sorted(manifest.notes),
        ("clock.start_s: expected a number", "data.total_steps: expected a whole number",
         "phases[0]: 'start_s' is missing", "run_id: expected a text, got 7"),
        strict=True,
    ):  # fmt: skip
        assert note.startswith(f"run.json: {words}") and note.endswith("; taken as missing")


def test_fields_of_a_later_version_are_kept_and_told(tmp_path):
    document = {
        "format": 1,
        "format_minor": 99,
        "mood": {"sun": True},
        "data": {"train_rows": 5, "colour": "red"},
        "phases": [{"name": "train", "start_s": 1.0, "why": "so"}],
    }
    manifest = parse_manifest(json.dumps(document), "run.json")
    (note,) = manifest.notes
    assert note.startswith("written by a later version (format 1.99")
    save_manifest(tmp_path, replace(manifest, outcome="completed"))
    written = json.loads((tmp_path / layout.MANIFEST).read_text())
    assert written["mood"] == {"sun": True} and written["outcome"] == "completed"
    assert (written["data"]["colour"], written["data"]["train_rows"]) == ("red", 5)
    assert written["phases"] == [
        {"name": "train", "start_s": 1.0, "end_s": None, "detail": None, "why": "so"}
    ]
    assert load_manifest(tmp_path).outcome == "completed"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.text(max_size=200) | json_values.map(json.dumps))
def test_any_manifest_text_gives_only_typed_errors(text):
    try:
        manifest = parse_manifest(text, "run.json")
    except RecordError:
        return
    assert isinstance(manifest, Manifest)
    assert json.loads(text)["format"] == 1, "all else is no run"


manifest_fields = sorted(manifest_json(first_manifest()))


@given(st.sampled_from(manifest_fields), json_values)
def test_mutated_manifests_give_only_typed_errors(field, value):
    document = manifest_json(replace(first_manifest(), run_id="x"))
    document[field] = value
    try:
        manifest = parse_manifest(json.dumps(document), "run.json")
    except RecordError:
        return
    assert isinstance(manifest, Manifest)


event_lines = st.lists(
    st.binary(max_size=40)
    | st.fixed_dictionaries(
        {"kind": st.sampled_from(["steps", "epoch", "end", "phase", "hello", "setting", "data"])},
        optional={
            k: json_values | st.floats(0, 1e4) | st.lists(st.floats(0, 1e4), max_size=3)
            for k in ("t_s", "epoch", "first_step", "start_s", "end_s", "loss", "outcome",
                      "validation", "name", "edge", "obtained", "software", "steps")
        },
    ).map(lambda value: json.dumps(value).encode()),
    max_size=8,
)  # fmt: skip


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(event_lines, st.lists(st.binary(max_size=40) | st.just(b"[1,2,3,4,5]"), max_size=8))
def test_a_directory_full_of_rubbish_reads_back(tmp_path_factory, events, samples):
    run = create_run_directory(tmp_path_factory.mktemp("fuzz"), "mlp", first_manifest())
    (run.path / layout.EVENTS).write_bytes(b"\n".join(events))
    header = json.dumps({"columns": [*SAMPLE_HEAD, "x"]}).encode()
    (run.path / layout.SAMPLES).write_bytes(b"\n".join([header, *samples]))
    for name in (layout.EVENTS, layout.SAMPLES):
        os.utime(run.path / name, (0, 0))  # long quiet: nobody writes any more
    run.lock.free()
    back = open_run(run.path)
    assert back.manifest.outcome is not None and back.manifest.outcome != "completed"
    assert back.steps.height >= 0 and back.samples.height >= 0


def test_the_lock_is_exclusive(tmp_path):
    first, second = DirectoryLock(tmp_path), DirectoryLock(tmp_path)
    assert first.try_take() and not second.try_take()
    first.free()
    first.free()
    assert second.try_take()
    second.free()


@contextmanager
def no_new_bytes():
    """Every write to a file fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_an_unwritable_manifest_keeps_the_old_one(tmp_path):
    run = create_run_directory(tmp_path, "mlp", first_manifest())
    old = load_manifest(run.path)
    text = (run.path / layout.MANIFEST).read_bytes()
    beside = sorted(run.path.iterdir())
    with no_new_bytes(), pytest.raises(RecordError, match=r"cannot write .*run\.json"):
        save_manifest(run.path, replace(old, outcome="failed"))
    assert load_manifest(run.path) == old
    assert (run.path / layout.MANIFEST).read_bytes() == text
    assert sorted(run.path.iterdir()) == beside, "nothing is left of the failed one"


GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("format-*")), ids=lambda p: p.name)
def test_golden_runs_stay_readable(path):
    run = open_run(path, seal=False)
    assert run.manifest.outcome == "completed"
    assert run.steps.height > 0 and run.samples.height > 0 and run.epochs.height > 0
    assert run.steps["step_s"].min() > 0
