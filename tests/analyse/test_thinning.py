"""Thinning keeps every extreme and the mean, breaks at gaps, and counts iterations."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainload.analyse.thinning import thin_samples, thin_steps

NO_STEPS = pl.DataFrame(
    {"start_s": [], "end_s": []}, schema=dict.fromkeys(("start_s", "end_s"), pl.Float64)
)


def samples(values, period_s=0.1):
    times = [at * period_s for at in range(len(values))]
    return pl.DataFrame({"t_s": times, "load": values}, schema_overrides={"load": pl.Float64})


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.none() | st.floats(-1e6, 1e6), min_size=1, max_size=400),
    st.integers(min_value=2, max_value=50),
)
def test_no_extreme_is_lost_whatever_the_readings(values, points):
    known = [v for v in values if v is not None]
    found = thin_samples(samples(values), NO_STEPS, ["load"], points=points)
    if not known:
        assert found is None
        return
    column = found.columns["load"]
    assert np.nanmin(column.low) == min(known)
    assert np.nanmax(column.high) == max(known)
    least, mean, most = column.span
    assert (least, most) == (min(known), max(known))
    assert mean == pytest.approx(math.fsum(known) / len(known), abs=1e-6)
    inside = ~np.isnan(column.mean)
    assert (column.low[inside] <= column.mean[inside] + 1e-6).all()
    assert (column.mean[inside] <= column.high[inside] + 1e-6).all()
    assert found.readings == len(values)


def test_a_spike_among_many_samples_is_kept():
    values = [0.1] * 36_000
    values[12_345] = 0.99
    found = thin_samples(samples(values), NO_STEPS, ["load"], points=300)
    column = found.columns["load"]
    assert len(found.times_s) <= 300
    assert column.high.max() == 0.99 and column.mean.max() < 0.2
    assert found.per_point == pytest.approx(120, rel=0.02)


def test_a_stretch_without_samples_is_a_gap():
    frame = samples([0.5] * 100)
    broken = pl.concat([frame.head(50), frame.tail(50).with_columns(pl.col("t_s") + 60)])
    found = thin_samples(broken, NO_STEPS, ["load"], points=1000)
    assert np.isnan(found.columns["load"].mean).sum() == 1


def test_iterations_count_finished_steps_and_are_missing_outside_training():
    steps = pl.DataFrame({"start_s": [1.0, 2.0, 3.0], "end_s": [2.0, 3.0, 4.0]})
    found = thin_samples(samples([0.5] * 60), steps, ["load"], points=1000)
    by_time = dict(zip(found.times_s.round(3), found.iterations, strict=True))
    assert math.isnan(by_time[0.5]) and math.isnan(by_time[5.0])
    assert by_time[1.0] == 0
    assert by_time[2.5] == pytest.approx(1.5)
    assert found.columns["load"].span == (0.5, 0.5, 0.5)


def test_steps_have_time_rate_and_loss():
    ends = [float(n + 1) for n in range(10)]
    steps = pl.DataFrame(
        {"start_s": [e - 0.5 for e in ends], "end_s": ends, "step_s": [0.5] * 10,
         "loss": [1.0] * 10, "examples": [None] * 10},
        schema_overrides={"examples": pl.Int64},
    )  # fmt: skip
    assert "examples_per_s" not in thin_steps(steps, points=100).columns
    found = thin_steps(steps, points=100, batch_size=32).columns
    assert set(found) == {"step_s", "examples_per_s", "loss"}
    assert found["examples_per_s"].mean[0] == 64


def test_a_column_that_is_read_seldom_says_so():
    values = [0.5 if at % 50 == 0 else None for at in range(500)]
    found = thin_samples(samples(values), NO_STEPS, ["load"], points=10_000)
    assert found.columns["load"].seldom
