"""Energy of kernels: rates are found again from points whose power they made."""

from dataclasses import replace

import pytest

from predict.made_points import linear_point, linear_work, row_point, row_work
from trainload.predict.joules import EnergyRates, fit_rates

IDLE_W, RUNNING_W, BYTE_J = 100.0, 150.0, 5e-11
FLOP_J = {"float32": 4e-12, "bfloat16": 5e-13}


def metered(point, seconds, waiting=1.0):
    """The point with the power that the rates give it; `waiting` times as long when repeated."""
    above_w = RUNNING_W + (FLOP_J[point.dtype] * point.flops + BYTE_J * point.bytes) / seconds
    return replace(
        point,
        seconds=seconds,
        power_w=IDLE_W + above_w / waiting,
        sustained_s=seconds * waiting,
    )


def made_points(waiting=1.0):
    points = []
    for dtype in FLOP_J:
        for side in (1024, 2048, 4096):
            points.append(metered(linear_point(side, side, side, 1.0, dtype), side**3 / 2e13))
            points.append(metered(linear_point(side, side, 64, 1.0, dtype), side**2 / 1e10))
        for size in (24, 26):
            seconds = 2**size / 4e11
            points.append(metered(row_point("elementwise", 2**size, 1.0, dtype), seconds, waiting))
    return points


@pytest.mark.parametrize("waiting", [1.0, 3.0])
def test_the_rates_are_found_again_also_where_calls_waited_for_the_host(waiting):
    rates = fit_rates(made_points(waiting), IDLE_W)
    assert rates.running_w == pytest.approx(RUNNING_W)
    float32, tf32, half = rates.flop_j
    assert (float32, half) == pytest.approx(tuple(FLOP_J.values()))
    assert tf32 == float32  # nobody measured it
    assert rates.byte_j == pytest.approx(BYTE_J)


def test_few_readings_or_no_idle_power_tell_nothing():
    assert fit_rates(made_points()[:11], IDLE_W) is None
    assert fit_rates(made_points(), None) is None
    assert fit_rates([replace(one, power_w=None) for one in made_points()], IDLE_W) is None


def test_energy_adds_up_and_launches_draw_nothing():
    rates = EnergyRates(running_w=100.0, flop_j=(4e-12, 2e-12, 1e-12), byte_j=1e-10)
    work = linear_work(1024, 1024, 1024, dtype="bfloat16")
    expected = 100.0 * 1e-3 + 1e-12 * work.flops + 1e-10 * work.bytes
    assert rates.above_idle_j([work], [1e-3 + 4e-6]) == pytest.approx(expected)
    assert rates.above_idle_j([work] * 3, [1e-3 + 4e-6] * 3) == pytest.approx(3 * expected)
    short = row_work(1)
    assert rates.above_idle_j([short], [2e-6]) == pytest.approx(1e-10 * short.bytes)
    deep = replace(
        work,
        operation="conv",
        sizes={"in_channels": 8, "out_channels": 8, "groups": 8, "kernel": 3},
    )
    assert rates.above_idle_j([deep], [0.0]) > rates.above_idle_j([work], [0.0])
