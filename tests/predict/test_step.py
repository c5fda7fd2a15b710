"""A step on two timelines: bounds, layers, energy, several devices."""

import json
from dataclasses import replace

import pytest

from predict.made_points import linear_work, made_calibration, row_work
from trainload.api.predicting.predictors import Predictors
from trainload.hardware.calibrations import load_calibrations, save_calibration
from trainload.hardware.catalogue import find_device, load_catalogue, load_device
from trainload.predict.curves import Curves
from trainload.predict.energy import measured_power, power_of
from trainload.predict.features import place
from trainload.predict.host import DISPATCH_S, usual_rates
from trainload.predict.limits import lacking_limits, limits_of
from trainload.predict.several import exchange_seconds
from trainload.predict.step import Asked, Pace, predict_step
from trainload.predict.transfer import Predictor


def asked(works, device="v100-pcie-32gb", **more):
    limits = limits_of(find_device(device))
    own = Curves(made_calibration(device, 0.7), limits)
    return Asked(
        works=works,
        device=find_device(device),
        limits=limits,
        predictor=Predictor(limits, own, ()),
        **{"dispatch_s": {}, "idle_w": None, **more},
    )


BIG = [linear_work(4096, 4096, 4096, layer="a"), row_work(2**24, layer="b", phase="backward")]
SMALL = [row_work(64, layer="a")] * 500


def test_every_device_has_limits_or_one_line_that_says_why_not():
    without = {}
    for device in load_catalogue().values():
        why = lacking_limits(device)
        assert (limits_of(device) is None) == (why is not None), device.name
        if why is not None:
            without[device.name] = why
            assert device.name in why and "\n" not in why
    assert "no calibration tells" in without["tpu-v2"]
    assert without["apple-m4"].endswith("states no bandwidth or no float32 peak")
    assert len(without) < 0.15 * len(load_catalogue())


def test_large_work_is_bound_by_the_device():
    said = predict_step(asked(BIG))
    assert said.bound == "device" and said.limit == "compute" and said.tier == "calibrated"
    assert said.step_s.low < said.step_s.value < said.step_s.high
    assert [layer.name for layer in said.layers] == ["a", "b"]
    assert sum(layer.total_s for layer in said.layers) == pytest.approx(said.device_s)
    assert 0 < said.utilisation < 1 and said.utilisation_of == "float32"


def test_many_small_operations_are_bound_by_the_host():
    said = predict_step(asked(SMALL, dispatch_s={"operation": 2e-5}))
    assert said.bound == "host" and said.limit == "launch"
    assert said.step_s.value == pytest.approx(500 * 2e-5)
    assert predict_step(asked(SMALL)).host_s == pytest.approx(500 * DISPATCH_S)


def test_a_gpu_in_an_unknown_host_may_be_held_by_one_that_is_known():
    other = {"step_conv": 1e-4, "step_transformer": 1e-4}
    alone, said = predict_step(asked(SMALL)), predict_step(asked(SMALL, other_host_s=other))
    assert (said.step_s.value, said.step_s.low) == (alone.step_s.value, alone.step_s.low)
    assert said.step_s.high > 500 * 1e-4 > alone.step_s.high
    assert "its host is not known" in said.why and "not known" not in alone.why
    known = predict_step(asked(SMALL, dispatch_s={"operation": 2e-5}, other_host_s=other))
    assert known.step_s.high < 500 * 1e-4 and "not known" not in known.why
    assert predict_step(asked(BIG, other_host_s=other)).why == predict_step(asked(BIG)).why


def test_the_known_host_is_the_middle_one_that_timed_whole_steps():
    hosts = [{"step_conv": s, "step_transformer": s} for s in (3e-5, 1e-5, 2e-5)]
    assert usual_rates([{}, {"operation": 1e-5}, *hosts])["step_conv"] == 2e-5
    assert usual_rates([{"operation": 1e-5}]) == {}
    device = find_device("t4")
    asking = Predictors().ask(SMALL, device, limits_of(device))
    assert asking.dispatch_s == {} and "step_conv" in asking.other_host_s


def test_dispatch_by_phase_and_class():
    works = [linear_work(8, 8, 8), row_work(8, phase="backward"), row_work(8, phase="update")]
    known = {"operation": 1e-6, "linear": 1e-5, "backward": 1e-4}
    said = predict_step(asked(works, dispatch_s=known))
    assert said.host_s == pytest.approx(1e-5 + 1e-4 + 1e-6)


def test_operations_within_a_step_have_gaps_between_them():
    plain = predict_step(asked(BIG, pace=Pace(factor=1.0, gap_s=0.0)))
    paced = predict_step(asked(BIG, pace=Pace(factor=1.1, gap_s=1e-5)))
    assert paced.device_s == pytest.approx(1.1 * plain.device_s + 2 * 1e-5)


def test_lists_of_tensors_take_kernels_for_each_few_of_them():
    few = replace(row_work(2**20), sizes={"elements": 2**20, "operands": 3, "tensors": 100})
    many = replace(few, sizes={**few.sizes, "tensors": 1300})
    limits = limits_of(find_device("h200"))
    times = place([row_work(2**20), few, many], ["float32"] * 3, limits).roofline_s
    assert times[0] < times[1] < times[2]
    assert times[2] - times[1] == pytest.approx(9 * 1e-5)


def test_more_work_never_takes_less():
    one, two = predict_step(asked(BIG)), predict_step(asked(BIG * 2))
    assert two.step_s.value == pytest.approx(2 * one.step_s.value)
    assert two.energy_j.value == pytest.approx(2 * one.energy_j.value)


def test_power_stays_between_rest_and_the_boards_limit():
    device = find_device("t4")
    rest, half, full = (power_of(device, 10.0, load, "datasheet") for load in (0.0, 0.3, 1.0))
    assert rest.value == 10.0 < half.value < full.value == 70.0
    assert full.high == 70.0 and rest.low >= 0
    assert power_of(find_device("jetson-tx1"), None, 1.0, "datasheet") is None


def test_energy_is_power_over_the_step():
    said = predict_step(asked(BIG))
    assert said.energy_j.value == pytest.approx(said.power_w.value * said.step_s.value)


def test_several_devices_wait_for_their_gradients():
    a100, h100 = find_device("a100-pcie-40gb"), find_device("h100-sxm")
    assert exchange_seconds(a100, 1, 1e9, 1.0) == 0.0
    two, eight = (exchange_seconds(a100, count, 1e9, 1.0) for count in (2, 8))
    assert 0 < two < eight
    assert exchange_seconds(h100, 8, 1e9, 1.0) < eight
    assert exchange_seconds(a100, 8, 1e9, 1.0, bus=1e12) < eight


def test_the_exchange_makes_a_step_longer_and_doubtful():
    one = predict_step(asked(BIG, gradient_bytes=1e9))
    many = predict_step(asked(BIG, gradient_bytes=1e9, count=4))
    assert many.step_s.value == pytest.approx(one.step_s.value + many.exchange_s)
    assert many.step_s.high / many.step_s.value > one.step_s.high / one.step_s.value
    assert many.power_w.value > one.power_w.value


def test_power_comes_from_the_kernels_where_they_were_metered():
    device = find_device("h200")
    busy = measured_power(device, 100.0, 0.8, 2e-3)
    assert busy.value == pytest.approx(500.0) and busy.low < 500.0 < busy.high <= 700.0
    assert measured_power(device, 100.0, 0.8, 4e-3).value == pytest.approx(300.0)
    assert measured_power(device, 100.0, 8.0, 2e-3).value == 700.0


def test_the_h200s_own_calibration_says_what_a_step_draws():
    limits = limits_of(find_device("h200"))
    own = load_calibrations()["h200"]
    said = predict_step(
        Asked(
            works=[linear_work(8192, 8192, 8192, dtype="bfloat16")] * 20,
            device=find_device("h200"),
            limits=limits,
            predictor=Predictor(limits, Curves(own, limits), ()),
            dispatch_s=own.dispatch_s,
            idle_w=own.idle_w,
        )
    )
    assert said.tier == "calibrated" and 500 < said.power_w.value <= 700
    assert said.utilisation > 0.5


def test_a_processor_of_ones_own_rests_on_its_calibration(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINLOAD_CALIBRATIONS", str(tmp_path / "own"))
    figures = {"bandwidth_bytes_per_s": 5e10, "float32_flop_per_s": 1e11}
    entry = {name: {"value": value, "source": "measured"} for name, value in figures.items()}
    entry |= {"name": "my-own-cpu", "title": "mine", "maker": "me", "kind": "CPU", "year": 2026}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(entry))
    mine = load_device(path)
    save_calibration(replace(made_calibration("v100-pcie-32gb", 0.7), device="my-own-cpu"))
    question = Predictors().ask(BIG, mine, limits_of(mine))
    assert question.predictor.nearest == ("my-own-cpu",)
    assert predict_step(question).tier == "calibrated"
