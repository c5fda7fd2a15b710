"""The search for the largest batch, without any trace."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainload.api.estimating.what_if import (
    MOST_TRACES,
    Asked,
    _judged,
    _search_traced,
    largest_where,
)
from trainload.estimate.memory.answer import Alternative
from trainload.estimate.memory.device import find_device_memory
from trainload.estimate.memory.fit import estimate_memory
from trainload.estimate.memory.op_trace import Allocation, Free
from trainload.report.memory.terminal import _vain_line


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


MIB = 1 << 20


def hold(storage, size_mib):
    return Allocation(storage=storage, size_bytes=size_mib * MIB, category="activation")


def judged(before, after):
    """The second trace as an alternative to the first."""
    device = find_device_memory(None)
    asked = Asked(
        source=None, choice=None, device=device, events=before,
        estimate=estimate_memory(before, device.temporaries_of, device.room),
    )  # fmt: skip
    return _judged(asked, "another way", after, None, None)


def test_a_step_that_holds_less_may_need_more_and_is_explained():
    # Half of a segment stays in use, so that the other half is free and cannot be given back.
    whole = [hold(1, 120), Free(storage=1), hold(2, 120)]
    split = [hold(1, 100), Free(storage=1), hold(2, 50), hold(3, 64)]
    found = judged(whole, split)
    assert found.gain_bytes < 0 < found.held_gain_bytes and found.helps is False
    assert "holds 6 MiB less" in found.note and "neither used nor given back" in found.note
    assert _vain_line(found).startswith("  another way: needs ") and " more; holds" in _vain_line(
        found
    )


def test_one_that_needs_less_helps_and_one_that_needs_as_much_does_not():
    less = judged([hold(1, 120)], [hold(1, 60)])
    assert less.helps and less.gain_bytes == less.held_gain_bytes == 60 * MIB and less.note is None
    same = judged([hold(1, 120)], [hold(1, 120)])
    assert same.helps is False and _vain_line(same) == "  another way: needs as much"
    unknown = Alternative(
        name="x", option=None, needed_bytes=None, gain_bytes=None, verdict="not known",
        running_out=None,
    )  # fmt: skip
    assert unknown.helps is None
