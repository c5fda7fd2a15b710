"""Operations counted from shapes, and the share of a device's peak that they are."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from trainload.analyse.attribution.flops import Shaped, flop_of_steps, read_shaped
from trainload.analyse.utilisation import find_utilisation, utilisation_of_run
from trainload.api import loading
from trainload.hardware.accelerators import Accelerator
from trainload.hardware.inventory import read_machine
from trainload.hardware.limits import MachineLimits, limits_path, save_limits
from trainload.hardware.naming import match_device
from trainload.hardware.settings import resolve_setting
from trainload.report.layers.wording import render_utilisation
from trainload_worker.protocol.measure import Measured, Reading


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


@pytest.fixture
def limits():
    rates = {("cpu", "float32", "2"): 200e9, ("cpu", "float32", "1"): 110e9,
             ("cuda", "bfloat16", None): 800e12, ("cuda", "float32", None): 50e12,
             ("cuda", "tf32", None): 400e12}  # fmt: skip
    readings = tuple(
        Reading({"device": device, "dtype": dtype, **({"threads": threads} if threads else {})},
                (rate / 2, rate, 2 * rate))
        for (device, dtype, threads), rate in rates.items()
    )  # fmt: skip
    return MachineLimits(
        taken_at="2026-05-04T03:02:01+00:00",
        quick=True,
        facts={},
        measured=(Measured("matrix-rate", "FLOP/s", readings),),
    )


def manifest_on(machine, threads=2):
    setting = resolve_setting(None, threads, machine)
    resolved = SimpleNamespace(
        cores=setting.cores, threads=setting.threads, accelerators=setting.accelerators
    )
    return SimpleNamespace(
        machine=machine, setting=SimpleNamespace(obtained=None, resolved=resolved)
    )


def test_a_run_is_held_to_what_its_machine_was_measured_to_reach(limits):
    machine = replace(read_machine(), cpu_model="Some CPU", accelerators=())
    asked = (manifest_on(machine), "cpu", {"float32": 50e9}, 1.0)
    before = utilisation_of_run(*asked, None)
    assert before.reached is None and "no peak is known" in render_utilisation(before)
    used = utilisation_of_run(*asked, limits)
    assert used.fraction is None and used.reached.fraction == pytest.approx(0.25)
    words = render_utilisation(used)
    assert "achieved 50 GFLOP/s of the measured 200 GFLOP/s (25.0 %; float32 matrices" in words
    assert "2 threads, detect --measure of 2026-05-04)" in words
    # Neither with threads that were not measured, nor in a type that was not.
    assert utilisation_of_run(manifest_on(machine, 3), *asked[1:], limits).reached is None
    assert utilisation_of_run(asked[0], "cpu", {"bf16": 1e9}, 1.0, limits).reached is None


def test_on_a_gpu_the_datasheet_and_the_measured_rate_stand_beside_each_other(limits):
    gpu = Accelerator(
        index=0, nvml_index=0, uuid="u", name="NVIDIA H200", memory_bytes=2**37, driver=None
    )
    machine = replace(read_machine(), accelerators=(gpu,))
    used = utilisation_of_run(manifest_on(machine), "cuda:0", {"bf16": 400e12}, 1.0, limits)
    assert used.reached.fraction == pytest.approx(0.5) and used.fraction == pytest.approx(
        0.404, 0.01
    )
    words = render_utilisation(used)
    assert "40.4 % of 989.5 TFLOP/s" in words and "(50.0 %; bf16 matrices, detect" in words
    faster = utilisation_of_run(manifest_on(machine), "cuda:0", {"float32": 100e12}, 1.0, limits)
    assert faster.reached.flop_per_s == 400e12


def test_a_processor_of_the_catalogue_counts_where_the_run_had_all_of_it():
    known = match_device("xeon-8592+")
    cores = int(known.value("cores"))
    machine = replace(
        read_machine(), cpu_model="INTEL(R) XEON(R) PLATINUM 8592+", accelerators=(),
        logical_cores=cores, physical_cores=cores, allowed_cores=tuple(range(cores)),
    )  # fmt: skip
    used = utilisation_of_run(manifest_on(machine, cores), "cpu", {"float32": 1e12}, 1.0, None)
    assert used.fraction == pytest.approx(1e12 / known.value("float32_flop_per_s"))
    part = replace(machine, allowed_cores=(0, 1))
    assert (
        utilisation_of_run(manifest_on(part), "cpu", {"float32": 1e12}, 1.0, None).fraction is None
    )


def test_limits_are_those_kept_here_of_such_a_machine(limits, tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINLOAD_LIMITS", str(tmp_path))
    machine = read_machine()
    assert loading._kept_limits(machine) is None and loading._kept_limits(None) is None
    save_limits(limits, limits_path(machine))
    assert loading._kept_limits(machine) == limits
    limits_path(machine).write_text("no JSON")
    assert loading._kept_limits(machine) is None
