"""Samples against steps, gaps, and cutting to a screen's worth of points."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from trainload.analyse import align_to_steps, bin_rows, time_breaks, training_span


def steps_frame(*spans: tuple[float, float]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "step": range(len(spans)),
            "epoch": [0] * len(spans),
            "start_s": [float(a) for a, _ in spans],
            "end_s": [float(b) for _, b in spans],
            "step_s": [float(b - a) for a, b in spans],
            "loss": [1.0] * len(spans),
        },
        schema_overrides={"start_s": pl.Float64, "end_s": pl.Float64, "step_s": pl.Float64},
    )


def test_iterations_count_finished_steps_and_the_share_under_way():
    steps = steps_frame((10, 12), (12, 16), (20, 22))
    times = pl.Series([9.0, 10.0, 11.0, 12.0, 13.0, 18.0, 21.0, 22.0, 22.5])
    assert align_to_steps(times, steps).to_list() == [
        None,
        0.0,
        0.5,
        1.0,
        1.25,
        2.0,
        2.5,
        3.0,
        None,
    ]


def test_without_steps_every_iteration_is_null():
    assert align_to_steps(pl.Series([1.0, 2.0]), steps_frame()).to_list() == [None, None]
    assert training_span(steps_frame()) is None


def test_the_order_of_times_is_kept():
    steps = steps_frame((0, 1), (1, 2))
    assert align_to_steps(pl.Series([2.0, 0.5]), steps).to_list() == [2.0, 0.5]


def test_a_long_interval_is_a_break():
    assert time_breaks(pl.Series([0.0, 1.0, 2.0, 5.0, 6.0])).to_list() == [
        False,
        False,
        False,
        True,
        False,
    ]
    assert time_breaks(pl.Series([1.0])).to_list() == [False]


def binnable(values: list[float | None], segment: int = 0) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "t_s": [float(t) for t in range(len(values))],
            "value": values,
            "segment": [segment] * len(values),
        },
        schema_overrides={"value": pl.Float64, "t_s": pl.Float64},
    )


def test_a_bin_gives_low_and_high_in_the_order_they_came():
    cut = bin_rows(binnable([1, 9, 2, 5, 4, 0, 3, 3]), "t_s", ["value"], 6)
    assert cut["value"].to_list() == [1, 9, 4, 0]
    assert cut["t_s"].to_list() == [0, 3, 4, 7]


def test_a_bin_without_values_stays_a_gap():
    cut = bin_rows(binnable([1, 1, 1, 1, None, None, None, None, 2, 2, 2, 2]), "t_s", ["value"], 8)
    assert cut["value"].to_list() == [1, 1, None, None, 2, 2]


def test_a_short_frame_is_unchanged():
    frame = binnable([3.0, 1.0, 2.0])
    assert bin_rows(frame, "t_s", ["value"], 10)["value"].to_list() == [3, 1, 2]


@given(st.lists(st.none() | st.floats(-1e9, 1e9), min_size=1, max_size=300), st.integers(6, 80))
def test_cutting_keeps_the_extremes_and_the_limit(values, points):
    cut = bin_rows(binnable(values), "t_s", ["value"], points)
    assert cut.height <= max(points, 2)
    assert cut["value"].min() == pl.Series(values, dtype=pl.Float64).min()
    assert cut["value"].max() == pl.Series(values, dtype=pl.Float64).max()
    assert cut["t_s"].is_sorted()
