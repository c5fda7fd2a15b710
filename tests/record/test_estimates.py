"""Estimates wait for the run of their workload, and are copied into its directory."""

import json
from dataclasses import replace

import pytest

from trainload.errors import RecordError, RecordTooNew
from trainload.record import layout
from trainload.record.estimates import (
    ESTIMATE_FORMAT,
    FOLDER_VARIABLE,
    RecordedEstimate,
    RecordedMemory,
    copy_estimate,
    estimates_folder,
    keep_estimate,
    load_estimate,
    load_scorecard,
)
from trainload.workload import (
    Masking,
    Optimizer,
    RecordedScript,
    assemble_workload,
    recorded_workload,
    script_workload,
)
from trainload.workload.identity import model_kind, workload_identity


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


def changed(workload, **training):
    return replace(workload, training=replace(workload.training, **training))


def test_the_folder_is_the_users_data_unless_told(monkeypatch, tmp_path):
    monkeypatch.delenv(FOLDER_VARIABLE)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert estimates_folder() == tmp_path / "trainload" / "estimates"


def said(**figures):
    return RecordedEstimate(model="net", memory=RecordedMemory(**figures))


def test_an_estimate_is_kept_and_copied_into_the_run(tmp_path, folder):
    keep_estimate("k1", said(reserved_bytes=1))
    kept = keep_estimate("k1", said(reserved_bytes=2))
    assert [path.name for path in folder.iterdir()] == [kept.name] == ["k1.json"]
    run = tmp_path / "run"
    run.mkdir()
    assert load_estimate(run) is None
    assert copy_estimate(run, ["absent", "k1"])
    assert load_estimate(run) == said(reserved_bytes=2)
    assert [path.name for path in run.iterdir()] == [layout.ESTIMATE]


def test_what_cannot_be_copied_fails_nothing(tmp_path, folder):
    assert not copy_estimate(tmp_path, ["absent"])
    keep_estimate("k1", said())
    assert not copy_estimate(tmp_path / "no such run", ["k1"])
    folder.joinpath("k2.json").mkdir()
    assert not copy_estimate(tmp_path, ["k2"])


def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(RecordError, match="cannot keep the estimate"):
        keep_estimate("k", said())


def load(folder, document):
    (folder / layout.ESTIMATE).write_text(json.dumps(document))
    return load_estimate(folder)


def test_a_document_of_before_the_format_was_written_is_read(tmp_path):
    found = load(tmp_path, {"origin": "estimate", "memory": {"ram_growth_bytes": 5}})
    assert found.format == 1 and found.memory.ram_growth_bytes == 5
    assert found.memory.verdict is None and found.device_name is None and not found.wrong


def test_unknown_names_are_passed_over_and_wrong_values_are_missing_with_a_note(tmp_path):
    memory = {"allocated_bytes": "x", "reserved_bytes": 7, "needed_bytes": 2**70, "new": 1}
    found = load(tmp_path, {"later": {}, "memory": memory, "device": {"name": "h200"}})
    assert found.memory == RecordedMemory(reserved_bytes=7) and found.device_name == "h200"
    assert len(found.wrong) == 2 and "memory.allocated_bytes" in found.wrong[0]
    assert load(tmp_path, {"memory": []}).memory is None


def test_what_a_later_version_wrote_is_refused(tmp_path):
    with pytest.raises(RecordTooNew, match="format 99"):
        load(tmp_path, {"format": 99})
    with pytest.raises(RecordError, match="damaged: format"):
        load(tmp_path, {"format": "x"})
    assert said().to_json()["format"] == ESTIMATE_FORMAT


def test_a_file_of_truths_is_read_and_odd_rows_are_passed_over(tmp_path):
    row = {"name": "a", "device": "h200", "model_kind": "CNN", "estimate": {"allocated": 9}}
    document = {
        "kind": "memory_scorecard",
        "format": 1,
        "rows": [{**row, "truth": {"allocated": 10, "reserved": "x"}}, {"name": "odd"}, 7],
        "verdicts": [{"name": "a", "device": "h200", "verdict": "fits", "outcome": "fits"}, {}],
    }
    path = tmp_path / "card.json"
    path.write_text(json.dumps(document))
    card = load_scorecard(path)
    assert [one.name for one in card.rows] == ["a"] and len(card.verdicts) == 1
    assert card.rows[0].truth.allocated == 10 and card.rows[0].truth.reserved is None
    assert len(card.wrong) == 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "damaged"),
        ("[]", "not a JSON object"),
        ("{}", "holds no estimates beside truths"),
        (json.dumps({"kind": "memory_scorecard", "format": 99}), "format 99"),
    ],
)
def test_a_file_of_truths_that_is_none_is_one_clear_line(tmp_path, text, words):
    path = tmp_path / "card.json"
    path.write_text(text)
    with pytest.raises(RecordError, match=words):
        load_scorecard(path)
    with pytest.raises(RecordError, match="no such file"):
        load_scorecard(tmp_path / "absent.json")


def test_the_same_step_has_the_same_identity_whatever_its_data_and_length():
    first = assemble_workload("lenet5", {"batch_size": 8, "epochs": 1, "rows": 64})
    again = assemble_workload("lenet5", {"batch_size": 8, "epochs": 9, "rows": 99}, seed=3)
    key = workload_identity(first, target="cuda", device="h200")
    assert key == workload_identity(again, target="cuda", device="h200")
    others = [
        workload_identity(first, target="cuda"),
        workload_identity(first, target="cpu"),
        workload_identity(changed(first, batch_size=16), target="cuda", device="h200"),
        workload_identity(changed(first, precision="bf16"), target="cuda", device="h200"),
        workload_identity(
            changed(first, optimizer=Optimizer(name="sgd")), target="cuda", device="h200"
        ),
        workload_identity(
            changed(first, optimizer=Optimizer(name="sgd", momentum=0.0)),
            target="cuda",
            device="h200",
        ),
        workload_identity(
            assemble_workload("lenet5", {"batch_size": 8, "classes": 7}),
            target="cuda",
            device="h200",
        ),
    ]
    assert len({key, *others}) == len(others) + 1
    assert workload_identity(first, target="cpu", device="x") == others[1], "any processor"


def test_a_script_is_known_by_path_arguments_and_content(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("a = 1")
    keys = {workload_identity(script_workload(str(path), ["--n", "1"]), target="cuda")}
    keys.add(workload_identity(script_workload(str(path), ["--n", "2"]), target="cuda"))
    path.write_text("a = 2")
    keys.add(workload_identity(script_workload(str(path), ["--n", "1"]), target="cuda"))
    assert len(keys) == 3


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("lenet5", "CNN"),
        ("mlp", "MLP"),
        ("lstm_lm", "recurrent"),
        ("transformer_encoder", "transformer"),
    ],
)
def test_the_kind_of_a_model_follows_from_its_layers(model, kind):
    words = {"rows": 64} if model != "mlp" else {}
    assert model_kind(recorded_workload(assemble_workload(model, words), Masking())) == kind
    assert model_kind(RecordedScript(script=None)) == "other"
