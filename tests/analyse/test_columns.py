"""States, counters and energy against values worked by hand."""

import polars as pl
import pytest

from trainload.analyse import summarise_columns, summarise_energy, trapezoid_j

HEAD = {"tick": [0.0, 1.0, 2.0], "read_s": [0.0] * 3, "sampler_cpu_s": [0.0] * 3}


def samples(**columns):
    return pl.DataFrame(
        {"t_s": [0.0, 1.0, 3.0], **HEAD, **columns},
        schema_overrides=dict.fromkeys(columns, pl.Float64),
    )


def test_a_state_has_lowest_highest_and_mean_without_nulls():
    states, counters = summarise_columns(samples(a_load_fraction=[0.2, None, 0.6]), [])
    found = states["a_load_fraction"]
    assert (found.min, found.max, found.count, found.unit) == (0.2, 0.6, 2, "fraction")
    assert found.mean == pytest.approx(0.4)
    assert counters == {}


def test_a_state_never_read_is_missing_and_not_zero():
    found = summarise_columns(samples(a_power_w=[None] * 3), [])[0]["a_power_w"]
    assert (found.min, found.max, found.mean, found.count) == (None, None, None, 0)


def test_a_counter_grows_between_first_and_last_reading():
    frame = samples(a_energy_j=[None, 100.0, 160.0])
    found = summarise_columns(frame, ["a_energy_j"])[1]["a_energy_j"]
    assert (found.amount, found.between_s, found.count) == (60.0, 2.0, 2)


@pytest.mark.parametrize("values", [[None, None, 5.0], [9.0, 4.0, 1.0]])
def test_a_counter_read_once_or_reset_has_no_amount(values):
    found = summarise_columns(samples(a_energy_j=values), ["a_energy_j"])[1]["a_energy_j"]
    assert found.amount is None


def test_energy_by_trapezoid():
    # 0–1 s: mean 15 W; 1–3 s: mean 30 W.
    assert trapezoid_j(pl.Series([0.0, 1.0, 3.0]), pl.Series([10.0, 20.0, 40.0])) == (75.0, 3.0)
    assert trapezoid_j(pl.Series([0.0, 1.0]), pl.Series([10.0, None])) == (None, None)


def test_a_joule_counter_wins_over_power_and_power_is_derived():
    frame = samples(
        gpu0_energy_j=[0.0, 5.0, 90.0],
        gpu0_power_w=[10.0, 10.0, 10.0],
        rail_in_power_w=[10.0, 20.0, 40.0],
    )
    counters = summarise_columns(frame, ["gpu0_energy_j"])[1]
    gpu, rail = summarise_energy(frame, counters, {})
    assert (gpu.source, gpu.energy_j, gpu.provenance) == ("gpu0", 90.0, "measured")
    assert gpu.mean_power_w == 30.0
    assert (rail.source, rail.energy_j, rail.provenance) == ("rail_in", 75.0, "derived")


def test_power_serves_where_the_counter_is_silent():
    frame = samples(gpu0_energy_j=[None] * 3, gpu0_power_w=[10.0, 20.0, 40.0])
    counters = summarise_columns(frame, ["gpu0_energy_j"])[1]
    (gpu,) = summarise_energy(frame, counters, {})
    assert (gpu.energy_j, gpu.column, gpu.provenance) == (75.0, "gpu0_power_w", "derived")
