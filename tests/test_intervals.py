"""Intervals against published values and by simulation."""

import math
import random

import pytest

from trainload.intervals import (
    mean_of,
    median_interval,
    ratio_interval,
    student_t_quantile,
    trimmed_mean_interval,
    welch_difference,
)


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


def test_median_interval_is_order_statistics_from_six_and_t_on_logarithms_below():
    six = median_interval([6.0, 1.0, 4.0, 2.0, 5.0, 3.0])
    assert six is not None and six.method == "order statistics"
    assert 1 < six.low < 2 and 5 < six.high < 6  # 96.9 % for [1, 6], less than 95 % for [2, 5]
    five = median_interval([1.0, 2.0, 4.0, 8.0, 16.0])
    assert five is not None and five.method == "t on logarithms"
    margin = 2.7764 * math.sqrt(2.5) / math.sqrt(5) * math.log(2)
    assert five.low == pytest.approx(4 * math.exp(-margin), rel=1e-4)
    below_zero = median_interval([-1.0, 0.0, 1.0])
    assert below_zero is not None and below_zero.method == "t"
    assert median_interval([1.0, 2.0]) is None and median_interval([1.0] * 5) is None
    assert median_interval([1.0] * 6).half_width == 0


def test_exact_order_statistics_agree_with_scipy():
    stats = pytest.importorskip("scipy.stats")
    values = [float(v) for v in range(1, 26)]
    # 1 - 2·P(B <= 7) of B(25, 1/2): that of [x8, x18], which needs no interpolation.
    confidence = 1 - 2 * stats.binom.cdf(7, 25, 0.5)
    found = median_interval(values, confidence=confidence - 1e-12)
    assert found is not None
    assert (found.low, found.high) == (pytest.approx(8), pytest.approx(18))
    free = stats.quantile_test(values, p=0.5).confidence_interval(confidence - 1e-9)
    assert (free.low, free.high) == (8, 18)


def test_welch_difference_agrees_with_scipy():
    stats = pytest.importorskip("scipy.stats")
    ones, others = [1.0, 2.0, 3.5], [2.0, 3.0, 4.5, 9.0]
    found = welch_difference(mean_of(ones), mean_of(others))
    wanted = stats.ttest_ind(ones, others, equal_var=False, alternative="greater")
    assert found is not None
    assert found.degrees == pytest.approx(wanted.df)
    assert found.chance_above(0) == pytest.approx(wanted.pvalue)
    assert welch_difference(mean_of([1.0, 1.0]), mean_of([2.0, 2.0])) is None
    with pytest.raises(ValueError, match="two values"):
        mean_of([1.0])
