"""Scores of a classifier from its confusion matrix, in pure Python; reads no device."""

from __future__ import annotations

import math
from typing import Any, Dict, Sequence

from trainload_worker.frameworks.backends import Evaluation

TOP = 5
NAMES = ("loss", "accuracy", "f1_weighted", "f1_macro", "top5_accuracy")

Scores = Dict[str, Any]


def score(evaluation: Evaluation, top: Sequence[int] = ()) -> Scores:
    """Loss and scores over the whole validation set, all as fractions but the loss.

    `top5_accuracy` is None with under five classes, where it says nothing. Every score is None
    without a single row, and where the loss is not finite: a diverged model prefers no class.
    Without a confusion matrix there is no F1. For each n in `top`, `top_n` has the share of rows
    whose class is among the n best.
    """
    scores = _score_whole(evaluation)
    if top:
        known = scores["accuracy"] is not None
        count = _count_rows(evaluation)
        scores["top_n"] = {
            str(n): evaluation.top_hits[n] / count if known and n in evaluation.top_hits else None
            for n in top
        }
    return scores


def _count_rows(evaluation: Evaluation) -> int:
    if evaluation.confusion is None:
        return evaluation.row_count or 0
    return sum(sum(row) for row in evaluation.confusion)


def _score_whole(evaluation: Evaluation) -> Scores:
    confusion = evaluation.confusion
    if confusion is None:
        return _score_hits(evaluation)
    row_count = sum(sum(row) for row in confusion)
    if row_count == 0 or not math.isfinite(evaluation.loss_sum):
        return dict.fromkeys(NAMES)
    hits = sum(confusion[index][index] for index in range(len(confusion)))
    top5 = None if len(confusion) < TOP else evaluation.top5_hits / row_count
    values = (
        evaluation.loss_sum / row_count,
        hits / row_count,
        f1_weighted(confusion),
        f1_macro(confusion),
        top5,
    )
    return dict(zip(NAMES, values))


def _score_hits(evaluation: Evaluation) -> Scores:
    count, hits = evaluation.row_count, evaluation.hits
    if not count or hits is None or not math.isfinite(evaluation.loss_sum):
        return dict.fromkeys(NAMES)
    values = (evaluation.loss_sum / count, hits / count, None, None, evaluation.top5_hits / count)
    return dict(zip(NAMES, values))


def f1_by_class(confusion: Sequence[Sequence[int]]) -> list[float]:
    """F1 of each class; rows are the truth. 0 where a class is never hit."""
    predicted = [sum(column) for column in zip(*confusion)]
    scores = []
    for index, row in enumerate(confusion):
        # F1 = 2 TP / (2 TP + FP + FN), and TP + FN + TP + FP is row sum + column sum.
        total = sum(row) + predicted[index]
        scores.append(2 * row[index] / total if total else 0.0)
    return scores


def f1_weighted(confusion: Sequence[Sequence[int]]) -> float:
    """Mean F1 weighted by each class's number of true rows."""
    supports = [sum(row) for row in confusion]
    weighted = sum(f1 * n for f1, n in zip(f1_by_class(confusion), supports))
    return weighted / sum(supports)


def f1_macro(confusion: Sequence[Sequence[int]]) -> float:
    """Plain mean F1 over the classes that occur in the truth or in the predictions.

    The same choice as scikit-learn's `f1_score(average="macro", labels=None)`.
    """
    predicted = [sum(column) for column in zip(*confusion)]
    present = [
        f1
        for f1, row, count in zip(f1_by_class(confusion), confusion, predicted)
        if sum(row) or count
    ]
    return sum(present) / len(present)
