"""What stays after the windows: found where it is, not where it is not."""

import random

import polars as pl
import pytest

from trainload.analyse.attribution.lasting import measure_lasting


def make_steps(factor, count=400, before=40, noise=0.03, seed=0):
    dice = random.Random(seed)
    times = [
        0.01 * (factor if step > before else 1.0) * (1 + dice.gauss(0, noise))
        for step in range(count)
    ]
    starts = [sum(times[:step], 0.0) for step in range(count)]
    return pl.DataFrame({"step": range(count), "start_s": starts, "step_s": times})


@pytest.mark.parametrize("factor", [1.1, 1.3])
def test_a_lasting_cost_is_shown_and_counted(factor):
    found = measure_lasting(make_steps(factor), [(40, 44), (60, 64)])
    assert found is not None and found.shown
    assert found.ratio == pytest.approx(factor, rel=0.03)
    assert found.lasting_s == pytest.approx(360 * 0.01 * (factor - 1), rel=0.15)


def test_noise_alone_is_rarely_taken_for_a_cost():
    shown = [measure_lasting(make_steps(1.0, seed=s), [(40, 44)]).shown for s in range(100)]
    assert sum(shown) <= 8
    found = measure_lasting(make_steps(1.0), [(40, 44)])
    assert found.low < 1 < found.high and found.lasting_s == 0.0


def test_too_few_steps_tell_nothing():
    assert measure_lasting(make_steps(2.0, count=50), [(40, 44)]) is None
    assert measure_lasting(make_steps(2.0), [(3, 6)]) is None
    assert measure_lasting(make_steps(2.0), []) is None
