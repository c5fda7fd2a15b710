"""Suggestions that are measured: a study of the default against each other way."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from trainload.api.analysing import analyse
from trainload.api.estimating.sources import BuildSource, GraphSource, find_source
from trainload.api.recommending.here import HereAdvice
from trainload.api.recommending.past_runs import PastRuns
from trainload.api.recommending.trial_work import TrialWork, find_trial_work, offered
from trainload.api.recommending.trying import _affordable, _left_out, _Pilot, try_suggestions
from trainload.api.running import run
from trainload.errors import UsageError
from trainload.hardware import read_machine
from trainload.recommend.here import Level, Suggestion, Trial
from trainload.workload import Optimizer

FAKE = {
    "model": "mlp", "framework": "fake", "data": "synthetic", "batch_size": 16, "epochs": 1000,
    "validate": "never", "check_overhead": False, "layers": False,
}  # fmt: skip


def suggestion(topic, factor, base, other, *, keeps=False):
    trial = Trial(factor=factor, base=base, other=other, keeps=keeps)
    return Suggestion(
        topic=topic, advice="it", option=None, gain=None, basis="not known", trial=trial
    )


SLOWER = Level(label="slow", sets={"fake": {"step_s": 0.03}})
FASTER = Level(label="fast", sets={"fake": {"step_s": 0.005}})
SWAP = Suggestion(
    topic="swap", advice="none", option=None, gain=0.0, basis="-", not_tried="it would hold it up"
)


@pytest.fixture
def short(monkeypatch):
    """Runs of a third of a second, each cell twice, however loaded the machine is."""
    place = "trainload.api.recommending.trying."
    for name, value in (("SHORTEST_S", 0.3), ("LONGEST_S", 0.3), ("MOST", 2), ("PILOT_S", 1.0)):
        monkeypatch.setattr(place + name, value)


MANY = 20.0
"""Minutes that no test takes."""


@pytest.mark.usefixtures("short")
@pytest.mark.long
def test_a_trial_confirms_and_withdraws(tmp_path, monkeypatch):
    monkeypatch.setattr("trainload.api.recommending.trying.MOST", 3)
    # A step of the fake backend takes as long for more examples.
    sizes = [Level(label=str(size), sets={"batch_size": size}) for size in (16, 64)]
    better = suggestion("batch", "batch_size", *sizes)
    worse = suggestion("threads", "threads", FASTER, SLOWER)
    shown = []
    done = try_suggestions(
        TrialWork(keys=FAKE, batch_size=16),
        [better, worse, SWAP],
        minutes=MANY,
        out=tmp_path / "studies",
        show=shown.append,
    )
    told = {one.topic: one.tried for one in done.suggestions}
    assert told["batch"].verdict == "confirmed" and 0.5 < told["batch"].gain < 0.9
    assert 0 < told["batch"].low < told["batch"].high and told["batch"].runs == 6
    assert told["threads"].verdict == "withdrawn" and told["threads"].high < 0
    assert told["swap"] is None and not done.interrupted
    assert any("how long a run takes" in text for text in shown)
    assert any("run 2 of" in text for text in shown) and "threads=slow" in "".join(shown)
    # It is a study like any other, to be read again.
    assert set(analyse(done.path).effects["factor"]) == {"threads", "batch_size"}
    advice = HereAdvice(
        title="mlp", batch_size=16, machine="this", suggestions=done.suggestions,
        notes=done.notes, trial=done,
    )  # fmt: skip
    text = advice.to_text()
    assert "measured here" in text and "64 against 16" in text and "withdrawn" in text
    assert "swap was not tried: it would hold it up" in text
    document = json.loads(json.dumps(advice.to_json()))
    assert document["trial"]["runs"] == done.runs == 9
    assert document["suggestions"][0]["tried"]["verdict"] == "confirmed"
    page = advice.to_html()
    assert "confirmed" in page and "it would hold it up" in page


@pytest.mark.usefixtures("short")
def test_what_cannot_be_compared_says_why(tmp_path):
    broken = suggestion("threads", "threads", FASTER, Level(label="broken", sets={"fake": {
        "crash_at_step": 0}}))  # fmt: skip
    work = TrialWork(keys=FAKE, batch_size=16)
    done = try_suggestions(work, [broken], minutes=MANY, out=tmp_path)
    (tried,) = (one.tried for one in done.suggestions)
    assert tried.verdict == "not decided" and "no run of it counts: failed" in tried.reason
    hopeless = TrialWork(keys={**FAKE, "fake": {"crash_at_step": 0}}, batch_size=16)
    ended = try_suggestions(hopeless, [broken], minutes=MANY, out=tmp_path / "b")
    assert "its first run ended as failed" in ended.suggestions[0].tried.reason and ended.runs == 0
    nothing = try_suggestions(work, [SWAP], minutes=1, out=tmp_path / "c")
    assert nothing.path is None and not (tmp_path / "c").exists()
    with pytest.raises(UsageError, match="above 0"):
        try_suggestions(work, [SWAP], minutes=0)


def test_few_minutes_are_for_changes_first():
    keep = suggestion("threads", "threads", SLOWER, FASTER, keeps=True)
    change = suggestion("batch", "batch_size", SLOWER, FASTER)
    trials = [keep.trial, change.trial]
    pilot = _Pilot(start_s=9.0, step_s=0.01)
    assert _affordable(trials, pilot, 1000.0) == trials
    few = _affordable(trials, pilot, 60.0)
    assert few == [change.trial] == _affordable(trials, pilot, 1.0)
    assert _left_out(keep, few).not_tried == "the minutes are too few for it"
    assert _left_out(change, few) is change and _left_out(SWAP, few) is SWAP


@pytest.mark.usefixtures("short")
def test_an_interruption_leaves_what_was_measured(tmp_path):
    better = suggestion("threads", "threads", SLOWER, FASTER)

    def stop(text):
        if "run 3 of" in text:
            raise KeyboardInterrupt

    work = TrialWork(keys=FAKE, batch_size=16)
    done = try_suggestions(work, [better], minutes=MANY, out=tmp_path, show=stop)
    assert done.interrupted and done.runs == 2
    tried = done.suggestions[0].tried
    assert tried.verdict == "not decided" and "too few runs" in tried.reason
    assert analyse(done.path).cells.height


@pytest.mark.usefixtures("short")
def test_a_script_is_tried_as_it_stands(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import os, sys\nprint(os.environ['OMP_NUM_THREADS'], *sys.argv[1:])\n")
    source = find_source(str(script), loss=None, script=True, arguments=["--lr", "{x}"], options={})
    rule = Optimizer(name="sgd")
    work = find_trial_work(source, options={}, batch_size=None, optimizer=rule, framework="fake")
    assert not work.has_length and work.keys["arguments"] == ["--lr", "{x}"]
    levels = [Level(label=str(n), sets={"threads": n}) for n in (7, 1)]
    asked = suggestion("threads", "threads", *levels)
    done = try_suggestions(work, [asked], minutes=MANY, out=tmp_path)
    assert done.runs == 4 and done.suggestions[0].tried.gain is not None
    logs = sorted(path.read_text().strip() for path in done.path.glob("runs/*/worker.log"))
    assert logs == ["1 --lr {x}"] * 2 + ["7 --lr {x}"] * 2
    script.write_text("import time\ntime.sleep(60)\n")
    ended = try_suggestions(work, [asked], minutes=0.01, out=tmp_path / "s")
    assert "arguments that make the script short" in ended.suggestions[0].tried.reason


def test_what_is_run_for_each_kind_of_source():
    rule = Optimizer(name="sgd", momentum=0.5)
    build = find_trial_work(
        BuildSource(text="my.py:build"), options={}, batch_size=8, optimizer=rule
    )
    plain = build.workload(30)["arguments"]
    assert plain == [str(Path("my.py").resolve()), "build", "8", "float32", "sgd", "0.5", "30"]
    varied = build.workload(30, ["batch_size", "precision"])["arguments"]
    assert varied[2:4] == ["{batch_size}", "{precision}"]
    mlp = find_source("mlp", loss=None, script=None, arguments=(), options={"classes": 3})
    work = find_trial_work(mlp, options={"classes": 3}, batch_size=8, optimizer=rule)
    keys = work.workload(100)
    assert keys["model"] == "mlp" and keys["classes"] == 3 and keys["max_steps"] == 100
    assert keys["rows"] * 0.8 >= 100 * 8
    graph = GraphSource(graph=mlp.graph, model=None)
    with pytest.raises(UsageError, match="--try runs built-in models"):
        find_trial_work(graph, options={}, batch_size=8, optimizer=rule)


def test_what_a_framework_does_not_offer_is_not_tried():
    work = TrialWork(keys=FAKE, batch_size=16)
    cache, native = Level(label="cache"), Level(label="native", sets={"loader": "native"})
    loader = suggestion("loader workers", "loader", cache, native)
    assert offered(loader, work) == "fake has no loader of its own"
    half = Level(label="fp16", sets={"precision": "fp16"})
    precision = suggestion("precision", "precision", cache, half)
    assert offered(precision, work) == "fake does not train built-in models in fp16"
    assert offered(suggestion("huge pages", "huge_pages", cache, half), work)
    torch = TrialWork(keys={**FAKE, "framework": "torch"})
    assert offered(loader, torch) is None and offered(SWAP, torch) == "it would hold it up"


def copy_with(path, times):
    """A run again, with another rate; its figures stay those of its run.json."""
    copy = path.with_name(f"{path.name}-{times}")
    shutil.copytree(path, copy)
    figures = json.loads((copy / "summary.json").read_text())
    figures["metrics"]["examples_per_s"] *= times
    (copy / "summary.json").write_text(json.dumps(figures))


def test_past_runs_of_this_machine_tell_gains(tmp_path):
    machine = read_machine()
    keys = {name: value for name, value in FAKE.items() if name != "model"}
    for threads, step_s in ((None, 0.02), (77, 0.005)):
        done = run("mlp", **keys, threads=threads, rows=100, max_steps=12,
                   fake={"step_s": step_s}, out=tmp_path)  # fmt: skip
        copy_with(done.path, 1.02)
        copy_with(done.path, 0.98)
    default = len(machine.allowed_cores)
    levels = [Level(label=str(n), sets={"threads": n}) for n in (default, 77)]
    asked = suggestion("threads", "threads", *levels)
    past = PastRuns(tmp_path, machine, title="mlp", run=None, batch_size=16)
    told = past.tell(asked)
    assert 0.3 < told.gain < 0.95 and f"6 runs in {tmp_path} against {default}" in told.basis
    assert past.newest.wait_fraction is not None
    other = PastRuns(tmp_path, machine, title="lenet5", run=None, batch_size=16)
    assert other.tell(asked) is asked and other.newest is None
    elsewhere = replace(machine, cpu_model="another")
    assert PastRuns(tmp_path, elsewhere, title="mlp", run=None, batch_size=16).newest is None
    assert PastRuns(None, machine, title="mlp", run=None, batch_size=16).tell(asked) is asked
