"""From words to a workload, and one clear line for each wrong word."""

import pytest

from trainload.errors import WorkloadError
from trainload.workload import assemble_workload, keypoint_data, parse_words, scan_csv


def test_defaults_are_study_l():
    workload = assemble_workload("mlp", {})
    assert workload.graph.parameters == 569354
    assert workload.training.batch_size == 512
    assert workload.training.optimizer.learning_rate == 1e-4
    assert workload.data.rows == 101136
    assert len(workload.data.classes) == 10


def test_words_reach_their_fields():
    words = parse_words(
        "mlp",
        ["hidden_units=64", "activation=silu", "optimizer=sgd", "momentum=0.8", "epochs=2",
         "seed_weights=7", "max_steps=none", "frames_fraction=0.1"]
    )  # fmt: skip
    workload = assemble_workload("mlp", words, seed=3)
    assert workload.model_options["hidden_units"] == 64
    assert workload.training.optimizer.name == "sgd"
    assert workload.training.optimizer.momentum == 0.8
    assert workload.seeds.weights == 7 and workload.seeds.split == 3
    assert workload.data.rows == pytest.approx(10114, abs=10)


@pytest.mark.parametrize(
    ("model", "words", "message"),
    [
        ("mpl", [], "unknown model 'mpl'; did you mean 'mlp'"),
        ("mlp", ["hiden_units=3"], "did you mean 'hidden_units'"),
        ("mlp", ["hidden_units"], "write it as name=value"),
        ("mlp", ["hidden_units=many"], "'many' is not a whole number"),
        ("mlp", ["hidden_units=-1"], "must be at least 1"),
        ("mlp", ["dropout=1"], "must be below 1"),
        ("mlp", ["learning_rate=nan"], "not a finite number"),
        ("mlp", ["activation=gelu"], "'gelu' is not one of relu, leaky_relu"),
        ("mlp", ["classes=7"], "data has 10 classes"),
        ("mlp", ["data=/nowhere/t.csv"], "no such table"),
    ],
)
def test_wrong_words(model, words, message):
    with pytest.raises(WorkloadError, match=message):
        assemble_workload(model, parse_words(model, words))


def test_keypoint_share_keeps_proportions():
    small = keypoint_data(0.01)
    assert small.class_counts["NONE"] == 232 and small.class_counts["OAFL"] == 64


@pytest.fixture
def table(tmp_path):
    def write(text):
        path = tmp_path / "table.csv"
        path.write_text(text)
        return path

    return write


def test_csv_gives_features_classes_and_groups(table):
    path = table("x,y,label,video\n1,2,a,v1\n3,4,b,v2\n\n5,6e-1,a,v2\n")
    data = scan_csv(path, group_column="video")
    assert data.feature_columns == ("x", "y")
    assert data.classes == ("a", "b") and data.rows == 3
    words = parse_words("mlp", [f"data={path}", "group_column=video"])
    workload = assemble_workload("mlp", words)
    assert workload.graph.input_shape == (2,) and workload.graph.output_shape == (2,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("x,y\n1,2\n", "no column 'label'"),
        ("x,label\n1,a\nz,b\n", "line 3, column 'x': 'z' is not a number"),
        ("x,label\n1,a\ninf,b\n", "not finite"),
        ("x,label\n1,a\n1\n", "line 3: 1 fields"),
        ("x,label\n1,a\n2,a\n", "1 class in 'label'"),
        ("label\na\nb\n", "no feature columns"),
        ("x,x,label\n1,2,a\n", "named twice"),
        ("x,label\n1,\n", "label is empty"),
        ("x,label\n1e39,a\n2,b\n", "too large for float32"),
        ("x,label\n1_000,a\n2,b\n", "'1_000' is not a number"),
    ],
)
def test_wrong_tables(table, text, message):
    with pytest.raises(WorkloadError, match=message):
        scan_csv(table(text))


def test_the_label_cannot_be_the_group(table):
    with pytest.raises(WorkloadError, match="both the label and the group"):
        scan_csv(table("x,label\n1,a\n2,b\n"), group_column="label")


def test_words_without_effect_are_refused(table):
    path = table("x,label\n1,a\n2,b\n")
    with pytest.raises(WorkloadError, match="frames_fraction is for generated keypoints"):
        assemble_workload("mlp", {"data": str(path), "frames_fraction": 0.5})
    with pytest.raises(WorkloadError, match="label_column is for a table"):
        assemble_workload("mlp", {"label_column": "skill"})


def test_one_group_cannot_be_split(table):
    with pytest.raises(WorkloadError, match="single group"):
        scan_csv(table("x,label,g\n1,a,1\n2,b,1\n"), group_column="g")
