"""Generated frames, tables, the order of rows and their standardisation."""

import math
from array import array
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worker_specs import small_counts

from trainload_worker.data.dataset import Dataset, RowOrder, standardise
from trainload_worker.data.keypoints import FEATURE_COUNT, make_keypoints
from trainload_worker.data.table import load_csv
from trainload_worker.errors import DataError
from trainload_worker.protocol.data import CsvData


def count_rows(dataset: Dataset) -> dict[str, int]:
    counts = Counter(dataset.classes[label] for label in dataset.labels)
    return {name: counts[name] for name in dataset.classes}


@pytest.mark.parametrize(
    "counts",
    [
        small_counts(),
        {"A": 1, "NONE": 1, "B": 3},
        {"A": 40, "B": 60},
        {"A": 40, "NONE": 0, "B": 60},
        {"NONE": 30},
        {"A": 2, "NONE": 500, "B": 0},
    ],
)
def test_class_counts_are_exact(counts: dict[str, int]) -> None:
    dataset = make_keypoints(counts, seed=3)
    assert count_rows(dataset) == counts
    assert len(dataset.features) == FEATURE_COUNT * dataset.row_count
    assert len(dataset.groups) == dataset.row_count


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.sampled_from(["A", "B", "C", "NONE"]), st.integers(0, 40), min_size=1))
def test_any_counts_are_exact(counts: dict[str, int]) -> None:
    assert count_rows(make_keypoints(counts, seed=0)) == counts


def test_the_seed_decides_everything() -> None:
    first, again = make_keypoints(small_counts(), 5), make_keypoints(small_counts(), 5)
    assert first == again
    assert make_keypoints(small_counts(), 6).features != first.features


def test_a_video_shows_one_skill_framed_by_none() -> None:
    dataset = make_keypoints(small_counts(20), 0)
    rest = dataset.classes.index("NONE")
    videos: dict[int, list[int]] = {}
    for group, label in zip(dataset.groups, dataset.labels, strict=True):
        videos.setdefault(group, []).append(label)
    for labels in videos.values():
        skills = [label for label in labels if label != rest]
        assert len(set(skills)) == 1
        first = next(at for at, label in enumerate(labels) if label != rest)
        assert labels[first : first + len(skills)] == skills


def test_every_class_has_several_videos() -> None:
    dataset = make_keypoints(small_counts(), 0)
    videos = {(label, group) for label, group in zip(dataset.labels, dataset.groups, strict=True)}
    assert min(Counter(label for label, _ in videos).values()) >= 8


def test_confidences_are_fractions_and_occluded_joints_are_zero() -> None:
    dataset = make_keypoints(small_counts(), 0)
    confidences = dataset.features[2::3]
    assert min(confidences) >= 0 and max(confidences) <= 1
    hidden = [at for at, confidence in enumerate(confidences) if confidence == 0]
    assert 0 < len(hidden) < 0.2 * len(confidences)
    assert all(dataset.features[3 * at] == dataset.features[3 * at + 1] == 0 for at in hidden)
    assert max(map(abs, dataset.features)) < 6


def test_another_number_of_features_is_refused() -> None:
    with pytest.raises(DataError, match="75 features, not 50"):
        make_keypoints({"A": 5}, 0, 50)


@given(st.integers(1, 300), st.integers(), st.integers(0, 1000))
def test_an_epoch_visits_each_row_once(count: int, seed: int, epoch: int) -> None:
    rows = array("q", range(5, 5 + count))
    assert sorted(RowOrder(rows, seed).draw(epoch)) == list(rows)


def test_epochs_and_seeds_have_their_own_order() -> None:
    rows = array("q", range(1000))
    order = RowOrder(rows, 0)
    assert order.draw(1) == RowOrder(rows, 0).draw(1)
    assert order.draw(0) != order.draw(1)
    assert order.draw(0) != RowOrder(rows, 1).draw(0)


def test_rows_that_meet_in_a_batch_part_in_the_next_epoch() -> None:
    order = RowOrder(array("q", range(6400)), 0)
    first, second = set(order.draw(0)[:64]), order.draw(1)
    met = [len(first & set(second[at : at + 64])) for at in range(0, 6400, 64)]
    assert max(met) <= 6


def table_spec(path: Path, group_column: str | None = "video") -> CsvData:
    return CsvData(
        path=str(path),
        label_column="label",
        group_column=group_column,
        feature_columns=("x", "y"),
        classes=("a", "b"),
        validation_fraction=0.2,
    )


def test_a_table_is_read_by_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("video,y,label,x\nv1,2,b,1\nv2,4,a,3\n\nv1,6,a,5\n", encoding="utf-8")
    dataset = load_csv(table_spec(path))
    assert list(dataset.features) == [1, 2, 3, 4, 5, 6]
    assert list(dataset.labels) == [1, 0, 0]
    assert list(dataset.groups) == [0, 1, 0]
    assert list(load_csv(table_spec(path, None)).groups) == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("video,y,label,x\nv1,2,b,1\nv2,oops,a,3\n", r"t\.csv, line 3, column y: 'oops'"),
        ("video,y,label,x\nv1,,b,1\n", "line 2, column y"),
        ("video,y,label,x\nv1,nan,b,1\n", "line 2, column y"),
        ("video,y,label,x\nv1,1e39,b,1\n", "line 2, column y"),
        ("video,y,label,x\nv1,1,c,1\n", "line 2, column label: 'c' is none of the classes"),
        ("video,y,label,x\nv1,1\n", "line 2: 2 cells"),
        ("video,y,label\nv1,1,a\n", "line 1: there is no column 'x'"),
        ("", "empty"),
    ],
)
def test_a_bad_table_is_refused_with_its_place(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=complaint):
        load_csv(table_spec(path))


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.csv: No such file"):
        load_csv(table_spec(tmp_path / "none.csv"))


def test_standardising_looks_at_the_training_rows_alone() -> None:
    features = array("f", [1, 7, 3, 7, 100, 9])
    dataset = Dataset(features, array("q", [0, 0, 0]), array("q", [0, 1, 2]), 2, ("a",))
    standardise(dataset, array("q", [0, 1]))
    assert list(features) == [-1, 0, 1, 0, 98, 2]
    assert all(map(math.isfinite, features))
