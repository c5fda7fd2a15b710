"""Operations counted from shapes, and the share of a device's peak that they are."""

import pytest

from trainload.analyse.attribution.flops import Shaped, flop_of_steps, read_shaped
from trainload.analyse.utilisation import find_utilisation
from trainload.hardware.naming import match_device


def count(name, dims, kind="float", **more):
    found = read_shaped(name, 5, {"Input Dims": dims, "Input type": [kind] * len(dims), **more})
    return None if found is None else (found.flop, found.kind)


@pytest.mark.parametrize(
    ("name", "dims", "flop"),
    [
        ("aten::mm", [[3, 4], [4, 5]], 2 * 3 * 4 * 5),
        ("aten::addmm", [[5], [3, 4], [4, 5]], 2 * 3 * 4 * 5),
        ("aten::bmm", [[7, 3, 4], [7, 4, 5]], 7 * 2 * 3 * 4 * 5),
        ("aten::_scaled_dot_product_flash_attention", [[2, 3, 8, 4]] * 3, 4 * 2 * 3 * 8 * 8 * 4),
        (
            "aten::_scaled_dot_product_flash_attention_backward",
            [[2, 3, 8, 4]] * 4,
            8 * 2 * 3 * 8 * 8 * 4,
        ),
        # Forward, and the gradients of input and weight.
        (
            "aten::convolution_backward",
            [[2, 6, 5, 5], [2, 3, 7, 7], [6, 3, 3, 3]],
            3 * 2 * (2 * 6 * 5 * 5) * (3 * 3 * 3),
        ),
        (
            "aten::_cudnn_rnn",
            [[10, 2, 4], [[16, 4], [16, 4], [16], [16]]],
            2 * 10 * 2 * (16 * 4 + 16 * 4),
        ),
    ],
)
def test_operations_are_counted_from_their_shapes(name, dims, flop):
    assert count(name, dims) == (flop, "float32")


def test_the_first_convolution_gives_no_gradient_of_its_input():
    dims = [[2, 6, 5, 5], [2, 3, 7, 7], [6, 3, 3, 3]]
    mask = {"Concrete Inputs": ["", "", "", "[False, True, False]"]}
    once = 2 * (2 * 6 * 5 * 5) * (3 * 3 * 3)
    assert count("aten::convolution_backward", dims, **mask) == (2 * once, "float32")


def test_what_multiplies_nothing_is_not_counted():
    assert count("aten::relu", [[3, 4]]) is None
    assert read_shaped("aten::mm", 0, {}) is None


def test_a_step_has_the_operations_that_began_in_it():
    found = [Shaped(1, 100, "bf16"), Shaped(11, 40, "bf16"), Shaped(12, 6, "float32")]
    assert flop_of_steps(found, [(0, 10), (10, 20)]) == {"bf16": 70.0, "float32": 3.0}


def test_the_share_is_of_the_peak_of_each_number_type():
    used = find_utilisation({"bf16": 98.95e12, "float32": 6.7e12}, 1.0, "NVIDIA H200")
    assert used is not None and used.fraction == pytest.approx(0.2)
    assert used.peak_flop_per_s == pytest.approx(989.5e12)
    assert used.peak_name == "bf16, NVIDIA H200 SXM 141 GB" and used.source


def test_more_float32_than_its_peak_ran_as_tf32():
    used = find_utilisation({"float32": 100e12}, 1.0, "NVIDIA H200")
    assert used is not None and used.peak_name.startswith("tf32")
    assert used.fraction == pytest.approx(100 / 494.5)


@pytest.mark.parametrize("device", [None, "Made-up GPU 1"])
def test_without_a_known_peak_there_is_no_share(device):
    used = find_utilisation({"float32": 1e12}, 0.5, device)
    assert used is not None and used.fraction is None and used.flop_per_s == 2e12


def test_without_counts_or_time_there_is_nothing_to_tell():
    assert find_utilisation(None, 1.0, "NVIDIA H200") is None
    assert find_utilisation({"bf16": 1.0}, None, "NVIDIA H200") is None


@pytest.mark.parametrize(
    "name",
    ["NVIDIA H200", "Tesla T4", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "Tesla K80"],
)
def test_drivers_names_are_found_in_the_catalogue(name):
    assert match_device(name) is not None
