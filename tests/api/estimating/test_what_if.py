"""The search for the largest batch, without any trace."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainload.api.estimating.what_if import MOST_TRACES, _search_traced, largest_where


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_the_largest_number_is_found_from_any_guess(truth, guess):
    asked = []

    def fits(number):
        asked.append(number)
        assert number >= 1
        return number <= truth

    assert largest_where(fits, guess) == (truth or None)
    assert len(asked) <= 60


def asked_for(batch, verdict):
    return SimpleNamespace(
        choice=SimpleNamespace(examples=batch), estimate=SimpleNamespace(verdict=verdict)
    )


@pytest.mark.parametrize(
    ("batch", "verdict", "truth", "above", "found"),
    [
        (8, "does not fit", 5, None, 5),
        (8, "fits", 20, None, 20),
        (8, "does not fit", 0, None, None),
        (8, "fits", 11, 13, 11),
    ],
)
def test_real_traces_alone_come_close(batch, verdict, truth, above, found):
    made = []

    def traced(number):
        made.append(number)
        return number <= truth

    answer = _search_traced(asked_for(batch, verdict), traced, above)
    assert len(made) <= MOST_TRACES
    assert answer.batch_size == found or (answer.batch_size <= truth and "at least" in answer.note)
