from typing import Any

import polars as pl
import pytest

from trainload.analyse import summarise_run
from trainload.analyse.attribution.energy import find_power
from trainload.record import open_run


def test_the_range_is_the_spread_of_power_in_training(make_run: Any) -> None:
    run = open_run(make_run(gpu=True))
    summary = summarise_run(run)
    power = find_power(summary, run.samples, "cuda:0")
    assert power is not None
    assert summary.training is not None
    inside = run.samples.filter(
        pl.col("t_s").is_between(summary.training.start_s, summary.training.end_s)
    )["gpu0_power_w"]
    assert power.source == "gpu0"
    assert power.mean_w == pytest.approx(300.0)
    assert power.low_w == pytest.approx(inside.quantile(0.05, "linear"))
    assert power.high_w == pytest.approx(max(inside.quantile(0.95, "linear"), power.mean_w))
    share = power.share(2.0)
    assert (share.energy_j, share.low_j) == (2 * power.mean_w, 2 * power.low_w)


def test_with_a_counter_alone_the_range_is_its_refresh(make_run: Any) -> None:
    run = open_run(make_run(gpu=True))
    power = find_power(summarise_run(run), run.samples.drop("gpu0_power_w"), "cuda:0")
    assert power is not None
    assert 0 < 1 - power.low_w / power.mean_w < 0.02
    assert power.high_w - power.mean_w == pytest.approx(power.mean_w - power.low_w)


def test_without_a_meter_of_the_device_there_is_no_energy(make_run: Any) -> None:
    run = open_run(make_run(gpu=True))
    assert find_power(summarise_run(run), run.samples, "cpu") is None
    plain = open_run(make_run())
    assert find_power(summarise_run(plain), plain.samples, "cuda:0") is None


def test_the_only_gpu_metered_is_the_one_used_whatever_its_number(make_run: Any) -> None:
    run = open_run(make_run(gpu=True, gpu_index=3))
    power = find_power(summarise_run(run), run.samples, "cuda:0")
    assert power is not None
    assert power.source == "gpu3"
