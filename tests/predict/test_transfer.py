"""Operations from a device's own points and from those of others: exact, bounded, wider."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from predict.made_points import linear_work, made_calibration, row_work
from trainload.hardware.calibrations import Point
from trainload.hardware.catalogue import find_device
from trainload.predict.curves import HOST_FLOOR, Curves, kind_of
from trainload.predict.features import place
from trainload.predict.limits import limits_of, usable_dtype
from trainload.predict.transfer import Predictor
from trainload.predict.work import Work, work_of


def curves(device, share, **more):
    return Curves(made_calibration(device, share, **more), limits_of(find_device(device)))


def predictor(device, own=None, others=()):
    return Predictor(limits_of(find_device(device)), own, others)


def test_a_measured_point_comes_back():
    own = curves("v100-pcie-32gb", 0.8)
    work = linear_work(1024, 2048, 1024)
    times = predictor("v100-pcie-32gb", own).times([work])
    limits = limits_of(find_device("v100-pcie-32gb"))
    ideal = work.flops / limits.peak("float32", 1.0)
    assert times.seconds[0] == pytest.approx(5e-6 + ideal / 0.8, rel=0.05)
    assert times.calibrated.all() and times.shared_spread < 0.1


def test_efficiency_is_carried_over_from_the_nearest_architecture():
    others = [curves("t4", 0.8), curves("p4", 0.2)]
    asked = predictor("v100-pcie-32gb", None, others)
    work = row_work(2**24)
    ideal = work.bytes / limits_of(find_device("v100-pcie-32gb")).bandwidth
    found = asked.times([work]).seconds[0] / ideal
    assert 1 / 0.8 < found < 1 / 0.4, "nearer to Turing's share than to Pascal's"
    assert asked.nearest[0] == "t4"
    assert not asked.times([work]).calibrated.any()


def test_another_devices_times_have_a_wider_range():
    own = predictor("t4", curves("t4", 0.7)).times([row_work(2**22)])
    borrowed = predictor("t4", None, [curves("v100-pcie-32gb", 0.7)]).times([row_work(2**22)])
    assert borrowed.shared_spread > own.shared_spread


def test_a_type_that_was_not_measured_is_borrowed_with_more_doubt():
    others = [curves("v100-pcie-32gb", 0.8)]
    asked = predictor("a100-pcie-40gb", None, others)
    works = [linear_work(2048, 2048, 1024), linear_work(2048, 2048, 1024, "float16")]
    times = asked.times(works)
    assert times.seconds[1] < times.seconds[0] and times.spread[1] > times.spread[0]


def test_the_hosts_share_of_small_calls_is_left_out_of_a_step():
    slow = curves("t4", 0.7, floor_s=5e-5, lacks=(HOST_FLOOR,))
    asked = predictor("t4", slow)
    tiny = [row_work(256)]
    assert asked.times(tiny, with_host=True).seconds[0] > 4e-5
    assert asked.times(tiny).seconds[0] < 1e-5


@settings(max_examples=25, deadline=None)
@given(
    some.integers(1, 10**5), some.integers(1, 10**5), some.integers(1, 10**4),
    some.sampled_from(("float32", "float16", "tf32")),
)  # fmt: skip
def test_no_time_is_below_the_roofline(m, n, k, dtype):
    limits = limits_of(find_device("h200"))
    work = linear_work(m, n, k, dtype)
    found = predictor("h200", None, [_A100]).times([work]).seconds[0]
    assert np.isfinite(found)
    assert found >= max(work.flops / limits.peaks[dtype], work.bytes / limits.bandwidth) * 0.999


_A100 = curves("a100-pcie-40gb", 0.9)


def test_an_unknown_class_is_doubtful_but_finite():
    work = Work(operation="lstm", dtype="float32", sizes={"hidden": 8}, flops=1e9, bytes=1e6)
    times = predictor("t4", None, ()).times([work])
    assert times.seconds[0] > 0 and times.spread[0] >= 0.5


@pytest.mark.parametrize(
    ("operation", "sizes", "kind"),
    [
        ("conv", {"kernel": 1, "in_channels": 64, "out_channels": 64}, "pointwise_conv"),
        ("conv", {"kernel": 3, "in_channels": 64, "out_channels": 64}, "conv"),
        (
            "conv",
            {"kernel": 3, "in_channels": 64, "out_channels": 64, "groups": 64},
            "grouped_conv",
        ),
        (
            "conv_grad_weight",
            {"kernel": 7, "in_channels": 64, "out_channels": 64, "groups": 64, "channels_last": 1},
            "last_grouped_conv_grad_weight",
        ),
        ("norm", {"channels": 3, "batch": 1, "channels_last": 1}, "last_norm"),
        ("norm", {"channels": 3, "batch": 1}, "image_norm"),
        ("norm", {"rows": 3, "width": 1}, "norm"),
        ("copy", {"elements": 3, "from_host": 1}, "host_copy"),
        ("copy", {"elements": 3, "from_host": 0}, "copy"),
    ],
)
def test_what_works_otherwise_is_told_apart(operation, sizes, kind):
    point = Point(
        operation=operation, dtype="float32", sizes=sizes, flops=0.0, bytes=1.0, seconds=1.0
    )
    assert kind_of(work_of(point)) == kind


def test_a_boards_power_limits_what_it_reaches():
    t4, v100 = limits_of(find_device("t4")), limits_of(find_device("v100-pcie-32gb"))
    assert t4.powered["float32"] / t4.peaks["float32"] < 0.6
    assert v100.powered["float32"] / v100.peaks["float32"] > 0.8


def test_types_a_device_lacks():
    t4 = limits_of(find_device("t4"))
    assert usable_dtype("tf32", t4) == "float32"
    assert usable_dtype("bfloat16", t4) is None
    assert limits_of(find_device("jetson-agx-orin-32gb")) is None


def test_another_makers_device_is_doubted_most():
    others = [curves("a100-pcie-40gb", 0.8)]
    foreign, known = (predictor(name, None, others) for name in ("mi300x", "h200"))
    work = [row_work(2**22)]
    assert foreign.times(work).shared_spread > known.times(work).shared_spread


def test_odd_sides_in_half_precision_are_not_taken_for_even_ones():
    limits = limits_of(find_device("h200"))
    even = made_calibration("h200", 0.8, "bfloat16").points
    odd = [
        replace(one, sizes={**one.sizes, "n": one.sizes["n"] + 1}, seconds=4 * one.seconds)
        for one in even
        if one.operation == "linear"
    ]
    both = replace(made_calibration("h200", 0.8, "bfloat16"), points=(*even, *odd))
    predictor = Predictor(limits, Curves(both, limits), ())
    works = [linear_work(1024, 512, 1024, "bfloat16"), linear_work(1024, 513, 1024, "bfloat16")]
    aligned, misaligned = predictor.times(works).seconds
    assert misaligned / aligned == pytest.approx(4.0, rel=0.3)


def test_few_channels_leave_most_of_a_device_idle():
    limits = limits_of(find_device("h200"))
    norms = [
        Work(
            operation="norm", dtype="float32", flops=0.0, bytes=1e8,
            sizes={"batch": 8, "channels": channels, "height": 56, "width": 56},
        )
        for channels in (16, 1024)
    ]  # fmt: skip
    few, many = place(norms, ["float32"] * 2, limits).roofline_s
    assert few > 5 * many


def image_points(factor, groups=1, **more):
    """Convolutions of an H200 that take `factor` ms whatever their size."""
    found = []
    for batch in (16, 32, 64, 128, 256):
        for channels in (64, 128):
            sizes = {
                "batch": batch, "in_channels": channels, "out_channels": channels, "height": 28,
                "width": 28, "kernel": 3, "stride": 1, "groups": groups, **more,
            }  # fmt: skip
            point = Point(
                operation="conv", dtype="float16", sizes=sizes, flops=1e9, bytes=1e6,
                seconds=1e-3 * factor,
            )  # fmt: skip
            found.append(point)
    return tuple(found)


def of_images(device, points, asked, *, own=True):
    made = Curves(
        replace(made_calibration("h200", 0.8), points=points), limits_of(find_device("h200"))
    )
    known = (made, ()) if own else (None, [made])
    return predictor(device, *known).times([asked]).seconds[0]


def test_images_with_their_channels_innermost_go_by_points_of_such_images():
    plain, last = image_points(1.0), image_points(0.25, channels_last=1)
    asked, other = work_of(last[0]), work_of(plain[0])
    assert of_images("h200", (*plain, *last), asked) == pytest.approx(0.25e-3, rel=0.05)
    assert of_images("h200", (*plain, *last), other) == pytest.approx(1e-3, rel=0.05)
    # Without such points: as others, less what their turning takes.
    assert 0.9e-3 < of_images("h200", plain, asked) < 1e-3


def test_depthwise_kernels_for_channels_innermost_are_not_carried_over():
    plain, last = image_points(1.0, groups=64), image_points(0.1, groups=64, channels_last=1)
    asked, both = work_of(last[0]), (*plain, *last)
    assert of_images("h200", both, asked) == pytest.approx(1e-4, rel=0.05)
    carried = of_images("h100-sxm", both, asked, own=False)
    assert carried == pytest.approx(of_images("h100-sxm", plain, asked, own=False), rel=1e-6)
    assert carried > 5e-4
