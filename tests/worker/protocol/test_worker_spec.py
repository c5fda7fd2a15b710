"""Reading the specification, and refusing a bad one in one line."""

import json
from pathlib import Path
from typing import Any

import pytest
from worker_specs import make_spec, run_worker

from trainload_worker.errors import SpecError
from trainload_worker.protocol.data import CsvData, KeypointData
from trainload_worker.protocol.spec import parse_spec


def test_all_fields_arrive(tmp_path: Path) -> None:
    spec = parse_spec(json.dumps(make_spec(tmp_path, setting={"cores": [0], "threads": 2})))
    assert isinstance(spec.data, KeypointData)
    assert spec.data.class_counts["BL"] == 102
    assert spec.graph.layers[1].attributes == {"units": 16, "bias": True}
    assert spec.training.optimizer.learning_rate == 1e-3
    assert spec.training.max_steps is None
    assert spec.setting.cores == (0,)
    assert spec.setting.accelerators == ()


def test_a_table_is_specified_by_its_columns(tmp_path: Path) -> None:
    data = {
        "kind": "csv",
        "path": "/t.csv",
        "label_column": "label",
        "group_column": None,
        "feature_columns": ["x"],
        "classes": ["a", "b"],
        "validation_fraction": 0.25,
    }
    spec = parse_spec(json.dumps(make_spec(tmp_path, data=data)))
    assert isinstance(spec.data, CsvData)
    assert spec.data.group_column is None


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"format": 1}, "format 1"),
        ({"training": {"batch_size": "many"}}, "training.batch_size: expected a whole number"),
        ({"training": {"batch_size": True}}, "training.batch_size: expected a whole number"),
        ({"training": {"batch_size": 0}}, "training.batch_size: 0 must be at least 1"),
        ({"training": {"precision": "fp8"}}, "training.precision: 'fp8' is not one of"),
        (
            {"data": {"kind": "images"}},
            "data.kind: 'images' is not one of keypoints, csv, synthetic",
        ),
        ({"graph": {"name": "g", "output": "o", "layers": [{}]}}, r"graph.layers\[0\]: 'name' is"),
        ({"seeds": []}, "seeds"),
    ],
)
def test_a_bad_field_is_named(tmp_path: Path, changes: dict[str, Any], complaint: str) -> None:
    document = {**make_spec(tmp_path)}
    for name, value in changes.items():
        merged = isinstance(value, dict) and name == "training"
        document[name] = {**document[name], **value} if merged else value
    with pytest.raises(SpecError, match=complaint):
        parse_spec(json.dumps(document))


def test_what_is_no_document_is_refused() -> None:
    for text in ("", "[]", "{"):
        with pytest.raises(SpecError):
            parse_spec(text)


def test_the_worker_says_one_line_and_exits_2(tmp_path: Path) -> None:
    document = make_spec(tmp_path)
    del document["seeds"]
    code, output = run_worker(document)
    assert code == 2
    assert output.decode().splitlines() == [
        "trainload_worker: the specification: 'seeds' is missing"
    ]
    assert not Path(document["events_path"]).exists()
