"""States, counters and energy against values worked by hand."""

import polars as pl
import pytest

from trainload.analyse import Span, summarise_columns, summarise_energy, trapezoid_j

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


def slow_meter(period_s, end_s, power_w=100.0):
    """Samples each 0.1 s, of which one in each period holds the counter's value."""
    times = [round(n * 0.1, 1) for n in range(round(end_s * 10) + 1)]
    every = round(period_s * 10)
    energy = [power_w * t if n % every == 0 else None for n, t in enumerate(times)]
    return pl.DataFrame({"t_s": times, "a_energy_j": energy})


def test_a_slow_counter_is_interpolated_at_the_edges_of_the_span():
    span = Span(start_s=2.0, end_s=11.9)
    frame = slow_meter(2.7, 15.0)
    found = summarise_columns(frame, ["a_energy_j"], span)[1]["a_energy_j"]
    assert found.amount == pytest.approx(990.0)
    assert found.between_s == pytest.approx(9.9)
    assert found.count == 4  # at 2.7, 5.4, 8.1 and 10.8 s
    (energy,) = summarise_energy(frame, summarise_columns(frame, ["a_energy_j"], span)[1], {}, span)
    assert energy.energy_j == pytest.approx(990.0)
    assert energy.mean_power_w == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("first_s", "last_s", "covered_s"), [(2.7, 13.5, 9.2), (0.0, 10.8, 8.8), (2.7, 10.8, 8.1)]
)
def test_a_counter_without_a_reading_beyond_an_edge_tells_what_it_covers(
    first_s, last_s, covered_s
):
    frame = slow_meter(2.7, 15.0).filter(pl.col("t_s").is_between(first_s, last_s))
    span = Span(start_s=2.0, end_s=11.9)
    found = summarise_columns(frame, ["a_energy_j"], span)[1]["a_energy_j"]
    assert found.between_s == pytest.approx(covered_s)
    assert found.amount == pytest.approx(100 * covered_s)


def test_a_counter_is_missing_where_it_fell_in_between_or_was_not_read_inside():
    frame = pl.DataFrame({"t_s": [0.0, 2.0, 4.0, 6.0, 8.0], "a_energy_j": [9.0, 1, 5, 3, 20]})

    def amount(start_s, end_s):
        span = Span(start_s=start_s, end_s=end_s)
        return summarise_columns(frame, ["a_energy_j"], span)[1]["a_energy_j"].amount

    assert amount(3.0, 7.0) is None  # it rose over all, but fell at 6 s
    assert amount(1.0, 3.0) is None  # it fell between the readings that bracket the start
    assert amount(2.0, 4.0) == 4.0  # what fell before the start is of no concern
    assert amount(2.5, 3.5) is None  # no reading inside: the meter was too slow


def test_power_is_interpolated_at_the_edges_of_the_span():
    power = pl.Series([10.0, 20.0, 40.0])
    # 0.5–1 s: 15 W to 20 W; 1–2 s: 20 W to 30 W.
    span = Span(start_s=0.5, end_s=2.0)
    assert trapezoid_j(pl.Series([0.0, 1.0, 3.0]), power, span) == (8.75 + 25.0, 1.5)


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
