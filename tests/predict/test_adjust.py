"""Predicted steps drawn to what was seen: measured steps, other devices, past runs."""

import math

import pytest

from trainload.predict.adjust import (
    find_residual,
    learn,
    ranged,
    rescale,
    spread_of,
    take_measured,
)
from trainload.predict.types import LayerPrediction, StepPrediction


def step(seconds, spread, tier="calibrated"):
    layer = LayerPrediction(
        name="a", forward_s=seconds / 2, backward_s=seconds / 2, update_s=0.0, limit="compute"
    )
    return StepPrediction(
        step_s=ranged(seconds, spread),
        device_s=seconds,
        host_s=seconds / 4,
        exchange_s=0.0,
        bound="device",
        limit="compute",
        tier=tier,
        nearest=("a",),
        why="as it is",
        layers=(layer,),
        flop=1e9,
        utilisation=0.5,
        utilisation_of="float32",
        power_w=ranged(100.0, 0.1),
        energy_j=ranged(100.0 * seconds, math.hypot(0.1, spread)),
    )


def test_a_range_and_its_spread_are_each_others_reverse():
    assert spread_of(ranged(3.0, 0.2)) == pytest.approx(0.2)


def test_measured_steps_take_the_place_of_the_model_and_name_their_tier():
    done = take_measured(step(1.0, 0.3), [2.0, 2.02, 1.98, 9.0, 2.0], "five steps")
    assert done.step_s.value == 2.0 and done.tier == "measured here" and done.why == "five steps"
    assert 0.06 <= spread_of(done.step_s) < 0.08
    assert done.layers[0].total_s == pytest.approx(2.0) and done.host_s == pytest.approx(0.5)
    assert done.energy_j.value == pytest.approx(200.0) and done.utilisation == pytest.approx(0.25)
    assert done.model.step_s.value == 1.0 and done.model.tier == "calibrated"


def test_another_device_is_rescaled_keeps_its_tier_and_is_never_narrower():
    other, here = step(0.1, 0.26, "datasheet"), step(1.0, 0.06)
    done = rescale(other, here, 1.5, "rescaled by 1.5", alike=True)
    assert done.step_s.value == pytest.approx(0.15) and done.tier == "datasheet"
    assert spread_of(done.step_s) == pytest.approx(math.hypot(0.26, 0.06))
    assert done.why == "as it is; rescaled by 1.5"
    assert done.model is other
    unlike = rescale(other, here, 1.5, "rescaled", alike=False)
    assert spread_of(unlike.step_s) > 0.45 and unlike.step_s.value == done.step_s.value


def test_past_runs_shift_by_their_shrunk_median():
    assert find_residual([]) is None
    one = find_residual([2.0])
    assert one.shift == pytest.approx(math.log(2) / 4)
    many = find_residual([1.2] * 7 + [3.0, 0.5])
    assert many.runs == 9 and many.shift == pytest.approx(math.log(1.2) * 9 / 12)


def test_alike_past_runs_narrow_the_range_and_scattered_ones_do_not():
    before = step(1.0, 0.3, "datasheet")
    done = learn(before, find_residual([1.2] * 12))
    assert done.step_s.value == pytest.approx(1.2 ** (12 / 15))
    assert spread_of(done.step_s) < 0.6 * 0.3 and done.tier == "datasheet"
    assert "12 past runs on this device: predictions were 16% low" in done.why
    assert learn(before, find_residual([0.8])).why.endswith(
        "1 past run on this device: predictions were 5% high, after shrinking"
    )
    scattered = learn(before, find_residual([0.2, 5.0, 0.2, 5.0]))
    assert spread_of(scattered.step_s) > 0.3
