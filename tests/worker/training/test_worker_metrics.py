"""Scores against values worked out by hand."""

import math

import pytest

from trainload_worker.frameworks.backends import Evaluation
from trainload_worker.training.metrics import f1_by_class, f1_macro, f1_weighted, score

# Truth in rows. Class 0: TP 3, FN 1, FP 2; class 1: TP 1, FN 2, FP 1; class 2: TP 2, FN 1, FP 1.
CONFUSION = [[3, 1, 0], [1, 1, 1], [1, 0, 2]]


def test_f1_of_each_class_by_hand() -> None:
    assert f1_by_class(CONFUSION) == pytest.approx([6 / 9, 2 / 5, 4 / 6])


def test_averages_by_hand() -> None:
    assert f1_macro(CONFUSION) == pytest.approx((2 / 3 + 2 / 5 + 2 / 3) / 3)
    assert f1_weighted(CONFUSION) == pytest.approx((4 * 2 / 3 + 3 * 2 / 5 + 3 * 2 / 3) / 10)


def test_macro_leaves_out_a_class_neither_true_nor_predicted() -> None:
    assert f1_macro([[2, 0, 0], [0, 2, 0], [0, 0, 0]]) == 1.0


def test_macro_counts_a_class_predicted_but_never_true_as_zero() -> None:
    confusion = [[1, 0, 1], [0, 2, 0], [0, 0, 0]]
    assert f1_macro(confusion) == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert f1_weighted(confusion) == pytest.approx((2 * 2 / 3 + 2 * 1) / 4)


def test_scores_are_means_over_rows() -> None:
    scores = score(Evaluation(CONFUSION, loss_sum=5.0, top5_hits=10))
    assert scores["loss"] == 0.5
    assert scores["accuracy"] == 0.6
    assert scores["top5_accuracy"] is None


def test_top_five_of_five_classes_is_stated() -> None:
    confusion = [[int(row == column) for column in range(5)] for row in range(5)]
    assert score(Evaluation(confusion, 1.0, 5))["top5_accuracy"] == 1.0


@pytest.mark.parametrize("loss_sum", [math.nan, math.inf])
def test_a_diverged_model_has_no_scores(loss_sum: float) -> None:
    assert set(score(Evaluation(CONFUSION, loss_sum, 10)).values()) == {None}


def test_without_rows_nothing_is_stated() -> None:
    assert set(score(Evaluation([[0, 0], [0, 0]], 0.0, 0)).values()) == {None}


def test_top_n_is_a_share_of_rows_or_nothing() -> None:
    hits = {1: 6, 2: 9}
    scores = score(Evaluation(CONFUSION, 5.0, 10, top_hits=hits), (1, 2))
    assert scores["top_n"] == {"1": 0.6, "2": 0.9} and scores["top_n"]["1"] == scores["accuracy"]
    diverged = score(Evaluation(CONFUSION, math.nan, 10, top_hits=hits), (1,))
    assert diverged["top_n"] == {"1": None}
    many = Evaluation(None, 5.0, 10, row_count=10, hits=6, top_hits={3: 8})
    assert score(many, (3,))["top_n"] == {"3": 0.8}


def test_equal_scores_rank_as_argmax_takes_them() -> None:
    numpy = pytest.importorskip("numpy")
    from trainload_worker.frameworks.arrays.rows import _ranks

    scores = numpy.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [5.0, 4.0, 3.0]])
    targets = numpy.array([2, 1, 0])
    own = scores[numpy.arange(3), targets]
    assert _ranks(scores, targets, own).tolist() == [1, 1, 0]
