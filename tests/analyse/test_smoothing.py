"""Moving averages against values worked by hand, and their bounds."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainload.analyse import moving_average

values_or_nulls = st.lists(st.none() | st.floats(-1e6, 1e6), max_size=60)


def test_an_odd_window_is_centred_and_edges_use_what_exists():
    assert moving_average([0, 3, 6, 9], 3).to_list() == [1.5, 3.0, 6.0, 7.5]


def test_an_even_window_holds_one_more_value_before():
    assert moving_average([0, 1, 2, 3, 4, 5], 4).to_list() == [0.5, 1.0, 1.5, 2.5, 3.5, 4.0]


def test_nulls_and_nans_are_left_out_and_an_empty_window_is_null():
    given_values = pl.Series([1.0, None, None, None, float("nan"), 5.0])
    assert moving_average(given_values, 3).to_list() == [1.0, 1.0, None, None, 5.0, 5.0]


def test_no_values_give_no_values():
    assert moving_average([], 50).to_list() == []
    assert moving_average([None, None], 50).to_list() == [None, None]


def test_a_window_below_one_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        moving_average([1.0], 0)


@given(values_or_nulls, st.integers(1, 100))
def test_an_average_lies_between_the_lowest_and_the_highest(values, window):
    averages = [v for v in moving_average(values, window).to_list() if v is not None]
    known = [v for v in values if v is not None]
    slack = 1e-9 * max((abs(v) for v in known), default=0) + 1e-9
    assert all(min(known) - slack <= v <= max(known) + slack for v in averages)
    assert len(moving_average(values, window)) == len(values)
