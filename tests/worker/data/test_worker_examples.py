"""Generated examples and arrays: the seed decides, shapes are right, and rows follow the order."""

import json
import struct
from array import array
from pathlib import Path
from typing import Any

import pytest
from worker_specs import make_graph, make_spec

from data_samples import write_npy
from trainload_worker.data.npy import load_npy
from trainload_worker.data.split import split_at
from trainload_worker.data.synthetic import make_synthetic
from trainload_worker.errors import DataError, GraphError
from trainload_worker.frameworks.backends import Evaluation
from trainload_worker.protocol.data import NpyArray, NpyData, SyntheticData
from trainload_worker.protocol.spec import parse_spec
from trainload_worker.training.metrics import score
from trainload_worker.training.prepare import prepare


def synthetic(form: str, shape: tuple[int, ...], rows: int = 30, **changes: Any) -> SyntheticData:
    fields = {"classes": 3, "vocabulary": 50, "validation_fraction": 0.2, **changes}
    return SyntheticData(form=form, shape=shape, rows=rows, **fields)


@pytest.mark.parametrize(
    ("form", "shape", "code", "kind"),
    [
        ("images", (3, 5, 9), "B", "uint8"),
        ("images", (1, 1, 1), "B", "uint8"),
        ("tokens", (7,), "q", "int64"),
        ("vectors", (4, 6), "f", "float32"),
    ],
)
def test_examples_are_drawn_by_the_seed(
    form: str, shape: tuple[int, ...], code: str, kind: str
) -> None:
    spec = synthetic(form, shape)
    first, again, other = (make_synthetic(spec, seed) for seed in (1, 1, 2))
    values = memoryview(first.features)
    assert first.form == kind and values.format == code
    assert len(values) == 30 * first.feature_count
    assert bytes(values) == bytes(memoryview(again.features))
    assert bytes(values) != bytes(memoryview(other.features))
    assert sorted(first.labels) == [0] * 10 + [1] * 10 + [2] * 10


def test_a_class_s_images_are_alike() -> None:
    dataset = make_synthetic(synthetic("images", (1, 8, 8), rows=300), 0)
    means = []
    for label in range(3):
        rows = [row for row in range(300) if dataset.labels[row] == label]
        pictures = [dataset.features[64 * row : 64 * row + 64] for row in rows]
        means.append([sum(column) / len(rows) for column in zip(*pictures, strict=True)])
    gaps = [abs(a - b) for a, b in zip(means[0], means[1], strict=True)]
    assert sum(gaps) / 64 > 20


def test_a_stream_has_one_token_more_than_its_rows() -> None:
    dataset = make_synthetic(synthetic("token_stream", (7,), classes=50), 0)
    assert len(dataset.features) == 30 * 7 + 1 and dataset.row_count == 30
    assert dataset.is_stream and dataset.class_count == 50
    assert min(dataset.features) >= 0 and max(dataset.features) < 50


def load(folder: Path, labelled: bool = True, **changes: Any) -> Any:
    def described(name: str, dtype: str, shape: tuple[int, ...]) -> NpyArray:
        content = (folder / name).read_bytes()
        return NpyArray(str(folder / name), dtype, shape, content.index(b"\n") + 1)

    fields = {"dtype": "<f4", "shape": (4, 3), "classes": 2, **changes}
    return load_npy(
        NpyData(
            features=described("features.npy", fields["dtype"], fields["shape"]),
            labels=described("labels.npy", "<i4", (4,)) if labelled else None,
            shape=fields.get("example", fields["shape"][1:]),
            classes=fields["classes"],
            validation_fraction=0.2,
        )
    )


def test_arrays_are_mapped(tmp_path: Path) -> None:
    content = struct.pack("<12f", *range(12))
    write_npy(tmp_path, "<f4", (4, 3), content, [0, 1, 1, 0])
    dataset = load(tmp_path)
    assert list(dataset.features) == list(range(12)) and list(dataset.labels) == [0, 1, 1, 0]
    assert isinstance(dataset.features, memoryview)
    write_npy(tmp_path, "<f8", (4, 3), struct.pack("<12d", *range(12)), [0, 1, 1, 0])
    assert load(tmp_path, dtype="<f8").features == array("f", range(12))
    write_npy(tmp_path, "<i2", (4, 3), struct.pack("<12h", *range(12)), [0, 1, 1, 0])
    assert load(tmp_path, dtype="<i2").features == array("q", range(12))


def test_a_stream_of_tokens_is_cut_into_rows(tmp_path: Path) -> None:
    write_npy(tmp_path, "<i8", (12,), struct.pack("<12q", *range(12)), None)
    stream = {"labelled": False, "dtype": "<i8", "shape": (12,), "example": (3,)}
    dataset = load(tmp_path, classes=12, **stream)
    assert dataset.row_count == 3 and list(dataset.features) == list(range(10))
    with pytest.raises(DataError, match="tokens from 0 to 9, but the vocabulary has 5"):
        load(tmp_path, classes=5, **stream)


def test_arrays_that_changed_since_they_were_looked_at(tmp_path: Path) -> None:
    write_npy(tmp_path, "<f4", (4, 3), bytes(48), [0, 1, 1, 7])
    with pytest.raises(DataError, match="labels from 0 to 7, but there are 2 classes"):
        load(tmp_path)
    with pytest.raises(DataError, match="48 bytes of values, its header says 60"):
        load(tmp_path, shape=(5, 3))


def test_the_data_s_own_validation_rows_stand_last() -> None:
    split = split_at(5, 3)
    assert list(split.train_rows) == [0, 1, 2] and list(split.validation_rows) == [3, 4]
    with pytest.raises(DataError, match="one row each"):
        split_at(5, 5)


def document_for(tmp_path: Path, kind: str, **changes: Any) -> Any:
    graph = make_graph(features=4, classes=3)
    graph["layers"][2]["kind"] = kind
    data = {"kind": "synthetic", "form": "vectors", "shape": [4], "rows": 41, "classes": 3}
    data["validation_fraction"] = 0.2
    document = make_spec(
        tmp_path, graph=graph, data={**data, **changes}, training={"batch_size": 8}
    )
    return parse_spec(json.dumps(document))


def test_batch_norm_never_stands_on_a_single_row(tmp_path: Path) -> None:
    prepared = prepare(document_for(tmp_path, "batch_norm"))
    assert len(prepared.split.train_rows) == 33
    assert prepared.steps_per_epoch == 4 and prepared.rows_per_epoch == 32
    assert prepared.describe().rows_left_out_of_each_epoch == 1
    assert prepare(document_for(tmp_path, "relu")).steps_per_epoch == 5


def test_data_that_does_not_fit_the_graph_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="takes 4 features, the data have 5"):
        prepare(document_for(tmp_path, "relu", shape=[5]))
    with pytest.raises(GraphError, match=r"gives shape \[3\], the data have 4 classes"):
        prepare(document_for(tmp_path, "relu", classes=4))
    with pytest.raises(GraphError, match=r"the data have 3 tokens"):
        prepare(document_for(tmp_path, "relu", form="token_stream"))


def test_scores_without_a_matrix_have_no_f1() -> None:
    scores = score(Evaluation(None, 20.0, 8, row_count=10, hits=5))
    assert scores == {
        "loss": 2.0,
        "accuracy": 0.5,
        "f1_weighted": None,
        "f1_macro": None,
        "top5_accuracy": 0.8,
    }
    assert set(score(Evaluation(None, 0.0, 0, row_count=0, hits=0)).values()) == {None}
