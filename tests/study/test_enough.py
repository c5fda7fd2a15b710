"""When a study has measured enough: known cases, and what simulation says of the promises."""

import math

import numpy as np
import pytest

from study_coverage import NOISES, coverage_of_stopped, rank_studies, true_median
from trainload.steadiness import unstable_reason
from trainload.study.enough import (
    RankRule,
    WidthRule,
    next_repetitions,
    paid_chance,
    paid_confidence,
)

STEADY = [1.0, 1.001, 0.999, 1.0005, 0.9995, 1.0002, 0.9998, 1.0]
NOISY = [1.0, 1.6, 0.7, 1.2, 0.8, 1.5, 0.9, 1.1]


def test_a_narrow_cell_has_enough_and_a_noisy_one_wants_more():
    rule = WidthRule(width_fraction=0.05)
    decision = next_repetitions({"a": STEADY, "b": NOISY, "c": STEADY[:2]}, rule)
    assert decision.wanted == {"b", "c"}
    assert decision.verdicts["a"].state == "enough"
    assert decision.verdicts["a"].low < 1.0 < decision.verdicts["a"].high
    assert "2 of at least 3" in decision.verdicts["c"].reason
    assert not decision.decided


def test_a_noisy_cell_ends_at_the_maximum_and_is_named_unstable():
    decision = next_repetitions({"b": NOISY}, WidthRule(width_fraction=0.05, maximum=8))
    assert not decision.wanted and not decision.decided
    verdict = decision.verdicts["b"]
    assert verdict.state == "at maximum" and "all 8" in verdict.reason
    assert verdict.unstable == "varies by 28% of its median"


def test_equal_values_say_nothing_until_order_statistics_can():
    rule = WidthRule(width_fraction=0.05, maximum=10)
    few = next_repetitions({"a": [2.0] * 4}, rule)
    assert few.wanted == {"a"} and "all are equal" in few.verdicts["a"].reason
    assert few.verdicts["a"].low is None
    many = next_repetitions({"a": [2.0] * 8}, rule).verdicts["a"]
    assert (many.state, many.low, many.high) == ("enough", 2.0, 2.0)
    capped = WidthRule(width_fraction=0.05, maximum=4)
    assert next_repetitions({"a": [2.0] * 4}, capped).verdicts["a"].state == "says nothing"
    once = WidthRule(width_fraction=0.05, minimum=1, maximum=1)
    verdict = next_repetitions({"a": [2.0]}, once).verdicts["a"]
    assert verdict.state == "says nothing" and "at least 3" in verdict.reason


def test_warm_up_never_counts():
    rule = WidthRule(width_fraction=0.05, warmup=1)
    verdict = next_repetitions({"a": [9.0, *STEADY]}, rule).verdicts["a"]
    assert verdict.repetitions == len(STEADY) and verdict.state == "enough"


def test_looking_once_costs_nothing_and_looking_often_does():
    assert paid_confidence(0.95, 5, 5) == pytest.approx(0.95)
    assert paid_confidence(0.95, 3, 30) == pytest.approx(1 - 0.05 / (1 + math.log(10)))
    assert paid_chance(0.05, 5, 5) == 0.05
    assert 0.05 / 28 < paid_chance(0.05, 3, 30) < 0.01


def test_a_race_puts_out_what_cannot_win_and_ties_what_is_as_good():
    slow = [2 * value for value in STEADY]
    close = [1.0005 * value for value in STEADY]
    values = {"slow": slow, "fast": STEADY, "close": close}
    decision = next_repetitions(values, RankRule(width_fraction=0.05))
    assert decision.leaders == ("fast",) and decision.decided and not decision.wanted
    assert decision.verdicts["slow"].state == "out of the race"
    assert "within 5.00% of fast" in decision.verdicts["close"].reason
    best = next_repetitions(values, RankRule(width_fraction=0.05, lower_is_better=False))
    assert best.leaders == ("slow",) and best.verdicts["fast"].state == "out of the race"
    two = next_repetitions(values, RankRule(width_fraction=0.05, top=2))
    assert set(two.leaders) == {"fast", "close"} and two.decided


def test_cells_that_never_vary_are_told_apart_when_order_statistics_could():
    rule = RankRule(width_fraction=0.05)
    few = next_repetitions({"a": [1.0] * 4, "b": [2.0] * 4}, rule)
    assert few.wanted == {"a", "b"}
    many = next_repetitions({"a": [1.0] * 10, "b": [2.0] * 10}, rule)
    assert many.decided and many.leaders == ("a",)


def test_an_open_race_repeats_only_the_contenders():
    noisy_twin = [1.05 * value for value in reversed(NOISY)]
    values = {"a": NOISY, "b": noisy_twin, "c": [30 * v for v in NOISY]}
    decision = next_repetitions(values, RankRule(width_fraction=0.05))
    assert decision.wanted == {"a", "b"}
    ended = next_repetitions(values, RankRule(width_fraction=0.05, maximum=8))
    assert not ended.wanted and not ended.decided
    assert ended.verdicts["b"].state == "at maximum"


def test_a_race_of_values_that_are_not_positive_goes_on_their_own_scale():
    values = {"a": [-1.0, -1.01, -0.99, -1.0], "b": [0.5, 0.51, 0.49, 0.5]}
    decision = next_repetitions(values, RankRule(width_fraction=0.05))
    assert decision.leaders == ("a",) and decision.verdicts["b"].state == "out of the race"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07], "drifts up"),
        ([1, 1.01, 0.99, 1.005, 0.995, 3], "1 of 6 values"),
        ([1, 2, 0.5], "varies by"),
        (STEADY, None),
        ([1.0, 5.0], None),
        ([2.0] * 9, None),
    ],
)
def test_unstable_cells_are_named_with_the_reason(values, said):
    found = unstable_reason(values)
    assert found is None if said is None else said in found


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"width_fraction": 0}, "width"),
        ({"width_fraction": 0.1, "minimum": 5, "maximum": 4}, "minimum"),
        ({"width_fraction": 0.1, "confidence": 1}, "confidence"),
        ({"width_fraction": 0.1, "warmup": -1}, "warmup"),
    ],
)
def test_a_rule_that_cannot_be_kept_is_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        WidthRule(**wrong)
    with pytest.raises(ValueError, match="top"):
        RankRule(width_fraction=0.1, top=0)
    with pytest.raises(ValueError, match="finite"):
        next_repetitions({"a": [math.nan]}, WidthRule(width_fraction=0.1))


@pytest.mark.parametrize(("noise", "asked"), [("lognormal 0.1", 0.1), ("20% outliers x2", 0.1)])
def test_the_interval_a_study_ends_with_contains_the_true_median(noise, asked):
    values = NOISES[noise](np.random.default_rng(5), (1000, 30))
    median = true_median(NOISES[noise])
    paid = coverage_of_stopped(values, median, WidthRule(width_fraction=asked))
    assert paid["coverage"] >= 0.93
    assert paid["repetitions"] < 28  # it does stop early


def test_unpaid_looks_would_not_hold(monkeypatch):
    monkeypatch.setattr("trainload.study.enough.paid_confidence", lambda confidence, *_: confidence)
    values = NOISES["lognormal 0.1"](np.random.default_rng(5), (1000, 30))
    assert coverage_of_stopped(values, 1.0, WidthRule(width_fraction=0.1))["coverage"] < 0.93


def test_early_stopped_rankings_are_right():
    rng = np.random.default_rng(5)
    found = rank_studies(NOISES["lognormal 0.1"], 3, 0.2, RankRule(width_fraction=0.05), 150, rng)
    assert found["decided"] > 0.9 and found["right_of_decided"] >= 0.95
    equal = rank_studies(NOISES["lognormal 0.02"], 2, 0.0, RankRule(width_fraction=0.05), 300, rng)
    assert equal["best_put_out"] <= 0.08  # 5 % and what 300 studies allow
