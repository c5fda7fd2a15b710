"""Bounds on memory and time: what they show, and what they leave open."""

import pytest
from hand_graphs import small_perceptron

from trainload.estimate import estimate_memory_bound, estimate_step, estimate_time_bound
from trainload.hardware.catalogue import FIGURES, Device, Figure, find_device
from trainload.workload import MODELS, build_model


def device_with(**figures):
    return Device(
        name="mine",
        title="Mine",
        maker=None,
        kind="own",
        year=None,
        aliases=(),
        note=None,
        figures={
            name: Figure(value=figures[name], source="test") if name in figures else None
            for name in FIGURES
        },
    )


def test_more_than_the_device_has_does_not_fit():
    step = estimate_step(small_perceptron(), batch_size=2)
    over = estimate_memory_bound(step, device_with(memory_bytes=step.fullest_bytes - 1))
    assert over.verdict == "does not fit"
    # Exactly full is no proof of either: the rest is not in the bound.
    full = estimate_memory_bound(step, device_with(memory_bytes=step.fullest_bytes))
    assert full.verdict == "not known"


def test_without_a_figure_there_is_no_verdict():
    step = estimate_step(small_perceptron(), batch_size=2)
    for device in (None, device_with()):
        found = estimate_memory_bound(step, device)
        assert found.verdict == "not known" and found.capacity_bytes is None
    assert estimate_memory_bound(step).bound_bytes == 720
    assert estimate_memory_bound(step).sum_bytes == 172 + 172 + 344 + 112


def test_the_roofline_by_hand():
    # At 10 FLOP/s and 100 bytes/s: linear0 takes 80/10 = 8 s forward and back; relu 80/100 and
    # 120/100; linear2 60/10 and 120/10; the loss 24 + 24 + 16 and 24 + 16 + 24 bytes; the update
    # 1204 bytes.
    step = estimate_step(small_perceptron(), batch_size=2)
    device = device_with(float32_flop_per_s=10, bandwidth_bytes_per_s=100)
    found = estimate_time_bound(step, device)
    assert found.forward_s == pytest.approx(8 + 0.8 + 6 + 0.64)
    assert found.backward_s == pytest.approx(8 + 1.2 + 12 + 0.64)
    assert found.update_s == pytest.approx(12.04)
    assert found.step_s == pytest.approx(15.44 + 21.84 + 12.04)
    assert found.compute_s == pytest.approx((140 + 200) / 10)


def test_the_fastest_unit_of_the_precision_is_taken():
    step = estimate_step(small_perceptron(), batch_size=2)
    device = device_with(
        float32_flop_per_s=10, tf32_flop_per_s=80, bf16_flop_per_s=160, bandwidth_bytes_per_s=100
    )
    assert estimate_time_bound(step, device).peak == "tf32_flop_per_s"
    half = estimate_step(small_perceptron(), batch_size=2, precision="bf16")
    assert estimate_time_bound(half, device).peak == "bf16_flop_per_s"


def test_a_missing_figure_is_named_and_nothing_stands_in_for_it():
    half = estimate_step(small_perceptron(), batch_size=2, precision="bf16")
    found = estimate_time_bound(half, device_with(fp16_flop_per_s=10, bandwidth_bytes_per_s=100))
    assert found.step_s is None and "no peak in bf16" in found.missing
    step = estimate_step(small_perceptron(), batch_size=2)
    found = estimate_time_bound(step, device_with(float32_flop_per_s=10))
    assert found.step_s is None and "no memory bandwidth" in found.missing


def test_a_large_batch_does_not_fit_a_small_board():
    graph = build_model("vgg16", MODELS["vgg16"].options())
    board = find_device("jetson-tx2")
    small = estimate_memory_bound(estimate_step(graph, batch_size=4), board)
    large = estimate_memory_bound(estimate_step(graph, batch_size=128), board)
    assert (small.verdict, large.verdict) == ("not known", "does not fit")
