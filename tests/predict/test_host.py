"""What the host takes for a step: rates of whole steps, recurrent layers, waits."""

import pytest

from predict.made_points import linear_work, row_work
from trainload.predict.host import DISPATCH_S, host_seconds, waits_for_gradients
from trainload.predict.work import Work

RATES = {"step_conv": 8e-5, "step_transformer": 1e-4, "step_cast": 5e-5, "operation": 1e-5}


def one(operation, *, name="", phase="forward", **sizes):
    return Work(
        operation=operation, dtype="float32", sizes=sizes, flops=0.0, bytes=8.0,
        name=name, phase=phase,
    )  # fmt: skip


def rise(works, known=RATES):
    """Forward and backward, without what a turn of the loop takes."""
    return host_seconds(works, known)[0] - host_seconds([], known)[0]


def test_each_operation_forward_stands_for_its_backward_too():
    works = [linear_work(8, 8, 8)] * 10
    back = [row_work(8, phase="backward")] * 30
    assert rise(works) == pytest.approx(10 * 1e-4)
    assert rise(works + back) == rise(works)


def test_networks_of_images_have_a_rate_of_their_own():
    assert rise([one("conv", out_channels=8)] * 10) == pytest.approx(10 * 8e-5)
    mixed = [one("conv", out_channels=8), linear_work(8, 8, 8)]
    assert rise(mixed) == pytest.approx(2 * 9e-5)


def test_light_operations_take_less_where_single_calls_say_so():
    known = {**RATES, "recorded": 1e-5, "linear": 2e-5}
    light, heavy = rise([one("elementwise"), linear_work(8, 8, 8)], known), 2e-4
    assert light == pytest.approx(heavy * (1 + 2) / 2 / (11 / 7))


def test_casts_have_their_rate():
    cast = one("copy", name="_to_copy", elements=8)
    assert rise([linear_work(8, 8, 8), cast]) == pytest.approx(1.5e-4)


def test_sums_of_gradients_beyond_the_usual_share_are_dispatched_too():
    works = [linear_work(8, 8, 8)] * 14
    summed = one("elementwise", name="add_", phase="backward")
    known = {**RATES, "backward": 3e-5}
    assert rise([*works, summed, summed], known) == pytest.approx(rise(works, known))
    assert rise([*works, *[summed] * 12], known) == pytest.approx(rise(works, known) + 10 * 3e-5)


def test_recurrent_layers_are_launched_step_by_step_unless_small():
    known = {**RATES, "step_lstm": 2e-5}
    large = one("lstm", steps=10, layers=2, hidden=512)
    small = one("lstm", steps=10, layers=2, hidden=64)
    assert rise([large], known) == pytest.approx(20 * 7.5e-5)
    assert rise([small], known) == pytest.approx(20 * 2e-5)


def test_recurrent_layers_are_launched_step_by_step_on_an_unknown_host_too():
    works = [one("lstm", steps=1000, layers=1, hidden=512)]
    assert host_seconds(works, {})[0] == pytest.approx(1000 * 7.5e-5, rel=0.01)


def test_an_update_goes_by_its_tensors():
    update = one("elementwise", phase="update", tensors=1200)
    assert host_seconds([update], {"operation": 1e-5, "optimizer": 1e-3})[1] == pytest.approx(
        1e-5 + 1e-3
    )
    assert host_seconds([one("elementwise", phase="update")], {})[1] == DISPATCH_S


def test_scaled_losses_wait_for_their_gradients():
    look = one("elementwise", name="_amp_foreach_non_finite_check_and_unscale_", phase="update")
    assert waits_for_gradients([look]) and not waits_for_gradients([one("elementwise")])
