"""Runs that are asked something while they go on: they mark, end well, and ignore strangers."""

import json
import os
import threading
import time

import pytest

from trainload.api.living import LiveRun, follow
from trainload.errors import RecordError
from trainload.record import load_manifest, open_run
from trainload.record.layout import EVENTS, WINDOW_ASK
from trainload.run import execute_run, prepare_request
from trainload.workload import parse_words


class Going:
    """A run of the fake framework in a thread, from when its directory is there."""

    def __init__(self, out, *, epochs=400, **options):
        words = ["frames_fraction=0.01", "batch_size=16", f"epochs={epochs}"]
        request = prepare_request(
            "mlp",
            parse_words("mlp", words),
            out=out,
            check_overhead=False,
            **{"framework": "fake", "fake": {"step_s": 0.005}, **options},
        )
        self.result = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(request,))
        self._thread.start()
        assert self._ready.wait(90)

    def _run(self, request):
        self.result = execute_run(request, self._show)

    def _show(self, progress):
        self.path = progress.path
        if progress.step:
            self._ready.set()

    def join(self):
        self._thread.join(90)
        assert not self._thread.is_alive()
        return self.result


@pytest.fixture
def going(tmp_path):
    started = []

    def start(**options):
        started.append(Going(tmp_path / "runs", **options))
        return started[-1]

    yield start
    for one in started:
        if one.result is None:
            LiveRun(one.path).command("end")
        one.join()


def wait_until(condition, timeout_s=90):
    until_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.2)


def test_a_run_marks_moments_and_ends_well_when_asked(going):
    one = going()
    run = LiveRun(one.path)
    t_s = time.monotonic()
    assert run.command("mark", words="lr down", t_s=t_s) == "marked"
    assert run.command("mark", t_s=t_s - 3600) == "marked"  # that moment cannot be meant
    wait_until(lambda: len(run.view().marks) == 2)
    assert sorted(mark.words for mark in run.view().marks) == ["", "lr down"]
    assert run.command("end").startswith("the run ends")
    result = one.join()
    assert (result.outcome, result.reason) == ("interrupted", "asked to end by a viewer")
    read = open_run(one.path)
    marks = {mark.words: mark.t_s for mark in read.manifest.marks}
    start_s = read.manifest.origin_s
    assert marks["lr down"] == pytest.approx(t_s - start_s, abs=1e-3)
    assert t_s - start_s <= marks[""] <= t_s - start_s + 5
    assert read.steps.height > 10 and read.manifest.sealed
    assert not list(one.path.glob("control-*"))
    later = LiveRun(one.path)
    assert [mark.words for mark in later.view().marks].count("lr down") == 1
    assert later.command("mark") == "the run does not go on any more"


def test_a_viewer_only_reads_and_sees_the_end(going):
    one = going(epochs=60)
    before = {path.name for path in one.path.iterdir()}
    run = LiveRun(one.path)
    view = run.view()
    assert view.standing == "running" and view.step > 0 and view.total_steps > view.step
    assert view.remaining_s > 0 and view.elapsed_s > 0
    assert {path.name for path in one.path.iterdir()} == before
    result = one.join()
    time.sleep(0.5)
    view = run.view()
    assert view.outcome == result.outcome == "completed"
    assert view.step == view.total_steps and view.remaining_s is None
    assert not load_manifest(one.path).sealed and (one.path / EVENTS).exists()
    open_run(one.path)  # seals
    sealed = LiveRun(one.path).view()
    assert (sealed.step, sealed.loss) == (view.step, pytest.approx(view.loss))
    assert sealed.charts[0].series[0].points


def test_a_window_is_refused_where_layers_are_not_traced(going):
    one = going()
    assert "--layers" in LiveRun(one.path).command("trace")
    assert not (one.path / WINDOW_ASK).exists()


@pytest.mark.framework("torch")
def test_a_window_is_traced_when_asked_and_its_layers_are_seen(going):
    pytest.importorskip("torch", reason="torch is not installed")
    one = going(framework="torch", fake={}, layer_budget=0.0001, epochs=2000)
    run = LiveRun(one.path)
    wait_until(lambda: run.view().windows >= 1)
    before = run.view().windows
    assert run.view().traces
    assert run.command("trace").startswith("a window is asked for")
    wait_until(lambda: run.view().windows > before)
    wait_until(lambda: run.view().layers is not None)
    layers = run.view().layers
    assert any("linear" in one.layer.lower() or "dense" in one.layer for one in layers.layers)
    assert sum(seconds for _, seconds in layers.parts) == pytest.approx(layers.step_s)
    # Where the plan's own window came first, the one asked for is still to come.
    wait_until(lambda: not (one.path / WINDOW_ASK).exists())


def test_a_stranger_s_files_do_not_end_a_run(going):
    one = going()
    good = {"verb": "end", "run_id": one.path.name}
    hostile = one.path / ("control-" + "1" * 32 + ".json")
    os.symlink("/dev/zero", hostile)
    os.mkfifo(one.path / ("control-" + "2" * 32 + ".json"))
    (one.path / ("control-" + "3" * 32 + ".json")).write_text(
        json.dumps({**good, "run_id": "another"})
    )
    time.sleep(1.5)
    assert one.result is None and LiveRun(one.path).view().standing == "running"


def test_a_run_that_takes_no_commands_says_so(make_run, monkeypatch):
    from trainload.api import living
    from trainload.record import DirectoryLock

    monkeypatch.setattr(living, "ANSWER_S", 0.3)
    path = make_run(outcome=None)
    lock = DirectoryLock(path)
    assert lock.try_take()
    run = LiveRun(path)
    assert run.command("end").startswith("the run takes no commands")
    lock.free()
    assert not list(path.glob("*control-*"))


def test_what_is_followed_is_a_run_or_a_study(make_run, tmp_path):
    assert isinstance(follow(make_run()), LiveRun)
    with pytest.raises(RecordError):
        follow(tmp_path / "none")
