"""Predictions from the day they are made to the scorecard: kept, copied, scored, drawn."""

import io
import json
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

import trainload
from trainload.analyse.predicted import PredictionPair, pair_prediction, score_predictions
from trainload.analyse.scorecard import score_estimates
from trainload.api.estimating.sources import find_source
from trainload.api.predicting.devices import calibrated_processor, find_here
from trainload.api.predicting.kept import correct, keep
from trainload.errors import RecordError, RecordTooNew, UsageError
from trainload.hardware import read_machine
from trainload.hardware.calibrations import Calibration, Point, save_calibration
from trainload.hardware.inventory import cpu_name
from trainload.hardware.naming import device_key
from trainload.record import layout
from trainload.record.estimates import FOLDER_VARIABLE
from trainload.record.predictions import keep_prediction, load_prediction
from trainload.report.predict.scorecard import render_prediction_card
from trainload.report.predict.scorecard_html import render_scorecard_html
from trainload.run import prepare_request
from trainload.run.estimated import adopt_prediction
from trainload.workload import parse_words
from trainload.workload.identity import timed_identity

TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
HOSTILE = "<script>alert(1)</script>"
CPU = device_key(cpu_name(read_machine()))
SAID = {
    "format": 1, "device": "h200", "tier": "datasheet", "count": 1, "step_s": 0.06,
    "examples_per_s": 9000.0, "energy_j": None, "model_step_s": 0.06, "model_tier": "datasheet",
    "low": {"step_s": 0.045, "examples_per_s": 8000.0},
    "high": {"step_s": 0.08, "examples_per_s": 10000.0}, "layers": [{"name": "a"}],
}  # fmt: skip


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "kept"))
    monkeypatch.setenv("TRAINLOAD_CALIBRATIONS", str(tmp_path / "calibrations"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def processor():
    """This machine's CPU as someone might have calibrated it: products and rows of every size."""
    points = []
    for size in range(4, 13):
        side = 2**size
        flops, moved = 2.0 * side**3, 12.0 * side**2
        point = {"operation": "linear", "sizes": {"m": side, "n": side, "k": side}}
        points.append((point, flops, moved, 5e-6 + flops / 5e10))
        point = {"operation": "elementwise", "sizes": {"elements": side**2, "operands": 2}}
        points.append((point, 0.0, 8.0 * side**2, 5e-6 + 8.0 * side**2 / 1e10))
    made = [
        Point(dtype="float32", flops=flops, bytes=moved, seconds=seconds, **point)
        for point, flops, moved, seconds in points
    ]
    calibration = Calibration(
        device=CPU, points=tuple(made), dispatch_s={}, idle_w=None, taken_at="2026-01-01",
        software={}, source="made up", host_cpu=cpu_name(read_machine()),
    )  # fmt: skip
    save_calibration(calibration)
    return calibration


def request(words, tmp_path, **more):
    asked = {"setting": "all", "out": tmp_path, **more}
    return prepare_request("mlp", parse_words("mlp", words), **asked)


def test_a_run_takes_the_prediction_of_its_workload_on_its_device(tmp_path):
    asked = request(["batch_size=64"], tmp_path)
    keep_prediction(timed_identity(asked.workload, "h200"), SAID)
    assert not adopt_prediction(asked, tmp_path), "made for another device"
    keep_prediction(timed_identity(asked.workload, CPU), {**SAID, "device": CPU})
    assert adopt_prediction(asked, tmp_path)
    assert load_prediction(tmp_path).device == CPU
    (tmp_path / layout.PREDICTION).unlink()
    assert not adopt_prediction(request(["batch_size=32"], tmp_path), tmp_path)
    assert not adopt_prediction(request(["batch_size=64"], tmp_path, framework="jax"), tmp_path)
    fewer = request(["batch_size=64"], tmp_path, threads=asked.setting.threads + 1)
    assert not adopt_prediction(fewer, tmp_path), "not with the threads that were predicted"
    assert not (tmp_path / layout.PREDICTION).exists()


def test_damaged_and_newer_predictions_are_one_line(tmp_path):
    assert load_prediction(tmp_path) is None
    (tmp_path / layout.PREDICTION).write_text("[1]")
    with pytest.raises(RecordError, match=r"prediction\.json is damaged"):
        load_prediction(tmp_path)
    (tmp_path / layout.PREDICTION).write_text('{"format": 99}')
    with pytest.raises(RecordTooNew, match="format 99"):
        load_prediction(tmp_path)
    (tmp_path / layout.PREDICTION).write_text('{"step_s": "x", "device": "h200"}')
    found = load_prediction(tmp_path)
    assert found.step_s is None and found.device == "h200" and found.wrong


def scorecard(*words):
    command = [sys.executable, "-m", "trainload", "scorecard", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_scorecard_shows_error_range_and_tier(make_run, tmp_path):
    path = make_run(gpu=True)
    (path / layout.PREDICTION).write_text(json.dumps(SAID))
    page = tmp_path / "card.html"
    done = scorecard(path, "--json", "--html", page)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["predictions"]
    rows = {row["quantity"]: row for row in found["rows"]}
    assert set(rows) == {"step_s", "examples_per_s"} and rows["step_s"]["held"] is True
    assert rows["step_s"]["error"] == pytest.approx(0.06 / rows["step_s"]["truth"] - 1)
    assert {group["tier"] for group in found["groups"]} == {"datasheet"}
    text = page.read_text()
    assert "held the measured step in 1 of 1 runs" in text and "Estimates of memory" not in text


def test_the_scorecard_is_drawn_on_a_terminal():
    from rich.console import Console

    pair = PredictionPair(
        name="run", device="h200", tier="datasheet", model_kind="CNN", quantity="step_s",
        predicted=0.06, low=0.045, high=0.08, truth=0.05,
    )  # fmt: skip
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(render_prediction_card(score_predictions([pair])))
    text = console.export_text()
    assert "datasheet" in text and "1 of 1" in text and "+20.0 %" in text and "45" in text


def test_what_strangers_wrote_is_escaped_on_the_page(make_run):
    path = make_run(gpu=True)
    document = {**SAID, "device": HOSTILE, "tier": HOSTILE}
    (path / layout.PREDICTION).write_text(json.dumps(document))
    run = trainload.load(path)
    pairs = pair_prediction(run.manifest, run.summary, load_prediction(path))
    text = render_scorecard_html(score_estimates([]), score_predictions(pairs))
    assert "<script" not in text and "&lt;script&gt;" in text


def test_a_calibrated_processor_has_its_best_rates_as_peaks(processor):
    made = calibrated_processor(processor)
    assert made.kind == "CPU" and made.name == CPU
    best = max(point.flops / point.seconds for point in processor.points)
    assert made.value("float32_flop_per_s") == best
    assert made.value("fp16_flop_per_s") is None
    board = Calibration(**{**vars(processor), "device": "some-gpu"})
    assert calibrated_processor(board) is None, "its host is another device"


def test_without_a_calibration_of_the_cpu_nothing_is_measured(monkeypatch):
    bare = SimpleNamespace(**{**vars(read_machine()), "accelerators": ()})
    monkeypatch.setattr("trainload.hardware.read_machine", lambda: bare)
    with pytest.raises(UsageError, match="trainload calibrate --device cpu"):
        find_here([])
    with pytest.raises(UsageError, match="calibrate --device cpu"):
        trainload.predict("mlp", device="t4", measure=10)


@TORCH
def test_predictions_are_kept_and_past_runs_correct_them(make_run, tmp_path):
    first, other = sorted(
        trainload.predict("mlp", device=["h200", "t4"], batch_size=32),
        key=lambda one: one.device.name,
    )
    kept = [json.loads(path.read_text()) for path in (tmp_path / "kept").glob("*.json")]
    assert {one["device"]: one["model_step_s"] for one in kept} == {
        "h200": first.step_s.value,
        "t4": other.step_s.value,
    }
    source = find_source("mlp", loss=None, script=None, arguments=(), options={})
    keep(replace(first, device=other.device, count=8), source)
    keep(replace(first, device=other.device, precision="tf32"), source)
    after = [json.loads(path.read_text()) for path in (tmp_path / "kept").glob("*.json")]
    assert after == kept, "one device alone, and no TF32, as runs are"

    tier = first.step.tier
    for _ in range(2):  # runs whose step took 50 ms where 40 ms were predicted
        document = {**SAID, "model_step_s": 0.04, "model_tier": tier}
        (make_run(gpu=True) / layout.PREDICTION).write_text(json.dumps(document))
    (make_run(gpu=True) / layout.PREDICTION).write_text("damaged")
    learned = correct(first, tmp_path / "runs")
    assert learned.step_s.value > 1.05 * first.step_s.value and learned.step.tier == tier
    assert "2 past runs on this device: predictions were" in learned.step.why
    assert learned.to_json()["model_step_s"] == first.step_s.value
    assert learned.to_json()["model_tier"] == tier
    assert correct(other, tmp_path / "runs") is other, "past runs of another device"
    assert correct(replace(first, count=2), tmp_path / "runs").step is first.step
    assert correct(first, tmp_path / "nowhere") is first


@TORCH
def test_steps_measured_here_rescale_the_others(processor, tmp_path, monkeypatch):
    if read_machine().accelerators:
        pytest.skip("a run here takes the GPU")
    seen = "the host's cores are at 80.0 % load"
    monkeypatch.setattr("trainload.run.calibration.quiet.find_disturbance", lambda *_: (seen,))
    found = trainload.predict("mlp", device=["t4", CPU], batch_size=16, measure=6)
    rows = {one.device.name: one for one in found}
    here, other = rows[CPU], rows["t4"]
    assert here.step.tier == "measured here" and "5 steps that were run here" in here.step.why
    factor = here.step_s.value / here.step.model.step_s.value
    before = other.step.model.step_s
    assert other.step_s.value == pytest.approx(factor * before.value)
    assert other.step.tier == "datasheet" and f"rescaled by {factor:.3g}" in other.step.why
    assert other.step_s.high / other.step_s.low > before.high / before.low
    assert seen in here.to_json()["warning"] and "  warning: the machine" in here.to_text()
    assert found.to_text().count(seen) == 1, "one line for all devices"
    (run,) = (tmp_path / "runs").iterdir()
    said = load_prediction(run)
    assert said.device == CPU and said.tier != "measured here", "the run has what the model said"
    with pytest.raises(UsageError, match="TF32"):
        trainload.predict("mlp", device="t4", precision="tf32", measure=6)
