"""Traces scaled to another batch, and passes done twice before an update."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from step_events import step_events

from trainload.estimate.memory.accumulated import accumulate
from trainload.estimate.memory.op_trace import Allocation, Free, Operation
from trainload.estimate.memory.replay import replay_trace
from trainload.estimate.memory.scaled_trace import match_traces


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 50), st.integers(1, 200))
def test_a_scaled_trace_is_the_trace_at_that_batch(base, wanted):
    scaled = match_traces(step_events(base), step_events(2 * base), base)
    assert scaled.events(wanted) == step_events(wanted)


def test_traces_of_another_structure_do_not_match():
    events = step_events(4)
    assert match_traces(events, step_events(8, layers=4), 4) is None
    for at, event in enumerate(events):
        if isinstance(event, Operation):
            other = [*events]
            other[at] = replace(event, name="aten.other.default")
            assert match_traces(events, other, 4) is None
            break
    at = next(n for n, event in enumerate(events) if isinstance(event, Allocation))
    other = [*events]
    other[at] = replace(events[at], category="input")
    assert match_traces(events, other, 4) is None


def test_the_order_of_what_is_freed_at_once_does_not_count():
    events = [Allocation(storage=n, size_bytes=8, category="activation") for n in range(3)]
    freed = [Free(storage=n) for n in range(3)]
    scaled = match_traces([*events, *freed], [*events, *reversed(freed)], 4)
    assert scaled.events(4) == [*events, *freed]
    apart = [*events[:2], freed[1], events[2], freed[0], freed[2]]
    assert match_traces([*events, *freed], apart, 4) is None


def test_numbers_are_rounded_up():
    scaled = match_traces(
        [Allocation(storage=0, size_bytes=10, category="input")],
        [Allocation(storage=0, size_bytes=13, category="input")],
        2,
    )
    sizes = [scaled.events(batch)[0].size_bytes for batch in (1, 2, 3, 4)]
    assert sizes == [9, 10, 12, 13]


def test_accumulated_gradients_are_held_beside_the_second_portion():
    events = step_events(batch=2)
    twice = accumulate(events)
    allocated = [e.storage for e in twice if isinstance(e, Allocation)]
    assert len(allocated) == len(set(allocated))
    freed = [e.storage for e in twice if isinstance(e, Free)]
    assert len(freed) == len(set(freed)) and set(freed) <= set(allocated)
    # What is left in the end is what was left before.
    left = {e.storage for e in events if isinstance(e, Allocation)} - {
        e.storage for e in events if isinstance(e, Free)
    }
    assert set(allocated) - set(freed) == left
    once, again = replay_trace(events), replay_trace(twice)
    gradients = 3 * 4 * (1 << 16)
    assert once.peak_allocated_bytes < again.peak_allocated_bytes
    assert again.peak_allocated_bytes - once.peak_allocated_bytes <= 2 * gradients
    assert again.peak.by_category["gradients"] >= gradients


def test_a_portion_saves_most_of_the_activations():
    whole = replay_trace(step_events(batch=64)).peak_allocated_bytes
    parts = replay_trace(accumulate(step_events(batch=16))).peak_allocated_bytes
    assert parts < 0.4 * whole


def test_a_trace_without_marks_stays_as_it_is():
    events = [Allocation(storage=0, size_bytes=8, category="weight")]
    assert accumulate(events) == events
    assert replay_trace([]).peak_allocated_bytes == 0


@pytest.mark.parametrize("batch", [1, 7])
def test_the_base_batch_needs_no_scaling(batch):
    events = step_events(batch)
    assert match_traces(events, step_events(2 * batch), batch).events(batch) == events
