"""Intervals against published values and by simulation."""

import math
import random

import pytest

from trainload.intervals import ratio_interval, student_t_quantile, trimmed_mean_interval


@pytest.mark.parametrize(
    ("probability", "degrees", "expected"),
    # Student's t table, two-sided 95 % and 99 %.
    [(0.975, 1, 12.706), (0.975, 5, 2.571), (0.975, 30, 2.042), (0.995, 10, 3.169)],
)
def test_student_t_quantile_matches_table(probability, degrees, expected):
    assert student_t_quantile(probability, degrees) == pytest.approx(expected, abs=5e-4)


def test_untrimmed_interval_is_students():
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    interval = trimmed_mean_interval(values, trim_fraction=0.0)
    assert interval is not None
    margin = 2.7764 * math.sqrt(2.5) / math.sqrt(5)  # t(0.975, 4) · s / √n
    assert interval.value == pytest.approx(3.0)
    assert interval.half_width == pytest.approx(margin, rel=1e-4)


def test_too_few_values_have_no_interval():
    assert trimmed_mean_interval([1.0, 2.0, 3.0]) is None


def test_interval_covers_the_truth_about_as_often_as_it_says():
    draw = random.Random(7)
    covered = 0
    for _ in range(400):
        interval = ratio_interval([math.log(1.02) + draw.gauss(0, 0.05) for _ in range(20)])
        assert interval is not None
        covered += interval.contains(1.02)
    assert 0.91 <= covered / 400 <= 0.99


def test_outliers_hardly_move_a_trimmed_mean():
    values = [0.0, 0.1, -0.1, 0.05, -0.05, 0.02, -0.02, 0.0, 0.01, 50.0]
    interval = trimmed_mean_interval(values)
    assert interval is not None and abs(interval.value) < 0.05


def test_student_t_quantile_refuses_nonsense():
    with pytest.raises(ValueError, match="probability"):
        student_t_quantile(1.5, 3)
    with pytest.raises(ValueError, match="degrees"):
        student_t_quantile(0.9, 0)
