"""Changes of level over time: found where they are, seldom where none is."""

import random

import pytest

from compare_samples import make, noisy
from trainload.analyse.compare.changes import find_splits
from trainload.analyse.compare.history import DatedRun, follow_metric
from trainload.report.compare.history import sparkline


def test_a_change_is_found_where_it_is():
    draw = random.Random(1)
    values = [*noisy(draw, 1.0, 15, 0.02), *noisy(draw, 1.2, 10, 0.02)]
    (split,) = find_splits(values)
    assert split.at == 15 and split.earliest <= 15 <= split.latest and split.p_value < 0.01
    assert find_splits(values) == [split]  # the same runs, the same answer


def test_two_changes_are_two():
    draw = random.Random(2)
    values = [*noisy(draw, 1.0, 12), *noisy(draw, 1.3, 12), *noisy(draw, 1.1, 12)]
    assert [split.at for split in find_splits(values)] == [12, 24]


def test_noise_and_single_outliers_are_no_change():
    draw = random.Random(3)
    found = sum(bool(find_splits(noisy(draw, 1.0, 20, 0.1))) for _ in range(40))
    assert found <= 5
    steady = noisy(draw, 1.0, 20, 0.01)
    steady[9] = 3.0
    assert find_splits(steady) == []
    assert find_splits([1.0] * 20) == [] and find_splits([1.0, 2.0, 1.0]) == []
    assert find_splits([]) == []


def history(values, versions):
    runs = [
        DatedRun(
            created=f"2026-11-{at + 1:02d}T00:00:00Z",
            run=make(at, step_s=value, facts={"script.sha256": version * 64},
                     surroundings={"framework_version": version}),
        )
        for at, (value, version) in enumerate(zip(values, versions, strict=True))
    ]  # fmt: skip
    return follow_metric("mlp", "step_s", runs[::-1])


def test_a_history_says_how_much_changed_and_with_what():
    draw = random.Random(4)
    values = [*noisy(draw, 1.0, 10), *noisy(draw, 1.25, 10)]
    found = history(values, "a" * 10 + "b" * 10)
    assert [point.value for point in found.points] == values  # in order of time
    (change,) = found.changes
    assert change.at == 10 and change.verdict == "slower"
    assert (
        change.percent == pytest.approx(25, abs=2) and change.low < change.difference < change.high
    )
    assert [one.name for one in change.configuration] == ["script.sha256"]
    assert [(one.name, one.a, one.b) for one in change.environment] == [
        ("framework_version", "a", "b")
    ]
    assert history(values[:10], "a" * 10).changes == ()


def test_a_sparkline_has_a_bar_a_value():
    assert sparkline([1.0, 2.0, 3.0]) == "▁▅█" and sparkline([]) == "" and sparkline([1.0]) == "▁"
    assert len(sparkline([float(n) for n in range(1000)], width=50)) == 50
