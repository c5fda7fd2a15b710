"""`estimate` in Python: typed values in, one typed answer out, nothing printed."""

import json
from dataclasses import FrozenInstanceError
from importlib.util import find_spec
from pathlib import Path

import pytest

from trainload.api.estimating import Estimate, estimate, estimate_study
from trainload.checked import to_json
from trainload.errors import TrainloadError, UsageError, WorkloadError
from trainload.record.estimates import FOLDER_VARIABLE, RecordedEstimate
from trainload.workload import MODELS, Optimizer, build_model

TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


def test_a_model_with_typed_options(capsys):
    found = estimate("mlp", batch_size=4, hidden_units=64, device="h200", counts_only=True)
    assert isinstance(found, Estimate) and found.choice.batch_size == 4
    wide = estimate("mlp", hidden_units=128, counts_only=True)
    assert found.counts.step.total("parameters") < wide.counts.step.total("parameters")
    assert found.verdict == "not known" and found.fits is None and found.needed_bytes is None
    assert "--counts" in found.missing and found.device.name == "h200"
    assert capsys.readouterr() == ("", "")


def test_a_lower_bound_can_show_that_a_step_does_not_fit():
    found = estimate("vgg16", batch_size=128, device="jetson-tx2", counts_only=True)
    assert found.verdict == "does not fit" and found.fits is False
    assert repr(found) == "<Estimate vgg16 on jetson-tx2: does not fit>"
    assert found.to_text().startswith("does not fit: ")


def test_a_graph_as_it_is_and_as_a_file(tmp_path):
    graph = build_model("lenet5", MODELS["lenet5"].options(classes=7))
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(to_json(graph.to_spec())))
    found = [
        estimate(what, batch_size=2, counts_only=True, **options).to_json()
        for what, options in ((graph, {}), (path, {}), ("lenet5", {"classes": 7}))
    ]
    assert found[0] == found[1] == found[2]


def test_the_document_is_what_the_record_holds():
    found = estimate("alexnet", device="h200", samples=10, counts_only=True).to_json()
    assert found["format"] == 1 and found["origin"] == "estimate"
    assert json.loads(json.dumps(found)) == found
    assert set(found) == set(RecordedEstimate().to_json())


def test_values_are_frozen_and_a_notebook_gets_a_frame():
    found = estimate("lenet5", counts_only=True)
    with pytest.raises(FrozenInstanceError):
        found.title = "other"
    shown = found._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "&lt;script" not in shown


def test_study_r_from_numbers_alone():
    found = estimate_study(samples=80909, inputs=75, outputs=10, weights=569354)
    assert found.cells.cells == 9_154_681 and found.complexity is None


@TORCH
def test_a_traced_model_is_kept_and_shows_how_far_it_is(kept):
    said = []
    found = estimate("lenet5", batch_size=8, device="h200", show=said.append)
    assert found.fits and found.verdict == "fits" and found.running_out < 0.01
    assert found.allocated_bytes.low_bytes < found.allocated_bytes.value_bytes
    assert found.needed_bytes.value_bytes < found.capacity_bytes
    assert said[-1] == "traced 1 of 1 steps"
    (path,) = kept.iterdir()
    assert json.loads(path.read_text()) == found.to_json()
    assert repr(found).startswith("<Estimate lenet5 on h200: fits, needs ")


@TORCH
def test_a_script_is_known_by_its_ending(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "import sys, torch\n"
        "model = torch.nn.Linear(8, int(sys.argv[1]))\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "while True:\n"
        "    model(torch.randn(4, 8)).sum().backward()\n"
        "    optimizer.step()\n"
    )
    found = estimate(path, arguments=["3"], target="cpu")
    assert found.title == "train.py 3" and found.choice is None and found.counts is None
    assert found.ram_growth_bytes.value_bytes > 0 and found.needed_bytes is None


@pytest.mark.parametrize(
    ("what", "options", "words"),
    [
        ("mpl", {}, "did you mean 'mlp'"),
        ("mlp", {"hiden_units": 3}, "did you mean 'hidden_units'"),
        ("mlp", {"hidden_units": "3"}, "expected a whole number, got '3'"),
        ("mlp", {"batch_size": 0}, "batch_size: 0 must be at least 1"),
        ("mlp", {"precision": "fp8"}, "unknown precision"),
        ("mlp", {"optimizer": "adm"}, "is not one of adam"),
        ("mlp", {"target": "tpu"}, "must be cuda or cpu"),
        ("mlp", {"device": "h201"}, "did you mean h20 or h200"),
        ("mlp", {"arguments": ["x"]}, "only a script takes arguments"),
        ("mlp", {"loss": lambda: None}, "loss is for a torch module"),
        ("no.py:build", {}, "no such file"),
        ("no.py", {}, "no such script"),
        ("no.py", {"classes": 3}, "only a built-in model takes options, not no.py"),
        (Path("no.json"), {}, "cannot read the graph"),
        (7, {}, "a int cannot be estimated"),
        (7, {"script": True}, "a int is no script"),
    ],
)
def test_what_cannot_be_meant_is_one_clear_line(what, options, words):
    with pytest.raises((UsageError, WorkloadError, TrainloadError), match=words) as caught:
        estimate(what, **options)
    assert "\n" not in str(caught.value)


def test_an_optimizer_may_be_given_whole():
    rule = Optimizer(name="sgd", momentum=0.0)
    found = estimate("mlp", optimizer=rule, counts_only=True)
    assert found.counts.bound.optimizer_bytes == 0 and found.choice.optimizer is rule


def test_a_list_of_devices_gives_them_best_first():
    found = estimate("vgg16", batch_size=128, device=["jetson-tx2", "t4"], counts_only=True)
    assert [one.device.name for one in found] == ["t4", "jetson-tx2"] and len(found) == 2
    assert found.fitting == () and found[1].fits is False
    assert repr(found) == "<Estimates vgg16: t4 not known, jetson-tx2 does not fit>"
    with pytest.raises(UsageError, match="at least one device"):
        estimate("vgg16", device=[], counts_only=True)
