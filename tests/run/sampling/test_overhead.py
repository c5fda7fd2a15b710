"""The sampler's own cost from step spans: by hand, with noise, and where it cannot be said."""

import random

import pytest

from trainload.record import Block
from trainload.run.sampling.overhead import measure_overhead
from trainload.run.sampling.sampler import PausePlan
from trainload.run.sampling.spans import StepSpans
from trainload_worker.protocol.events import EpochDone, StepsDone


def make_steps(pauses, active_step_s, paused_step_s, total_s, noise=0.0, seed=1):
    draw = random.Random(seed)
    starts, ends, t = [], [], 100.0
    while t < 100.0 + total_s:
        paused = any(a <= t < b for a, b in pauses)
        step = (paused_step_s if paused else active_step_s) * (1 + draw.gauss(0, noise))
        starts.append(t)
        t += step
        ends.append(t)
    return starts, ends


PAUSES = [(101.0 + 1.2 * i, 101.3 + 1.2 * i) for i in range(30)]


def test_a_known_cost_is_found():
    starts, ends = make_steps(PAUSES, 0.00515, 0.005, 40)
    found = measure_overhead(starts, ends, PAUSES, origin_s=100.0)
    assert found.verdict == "resolved" and found.observations == 30
    assert found.ratio == pytest.approx(1.03, abs=0.002)
    assert found.low <= found.ratio <= found.high
    assert found.blocks[0] == Block(start_s=1.0, end_s=1.3)


def test_no_cost_under_noise_is_not_resolvable():
    starts, ends = make_steps(PAUSES, 0.005, 0.005, 40, noise=0.3)
    found = measure_overhead(starts, ends, PAUSES, origin_s=100.0)
    assert found.verdict == "not_resolvable"
    assert found.low < 1 < found.high and found.reason


def test_too_little_to_say():
    starts, ends = make_steps(PAUSES, 0.005, 0.005, 3)
    few = measure_overhead(starts, ends, PAUSES[:2], origin_s=100.0)
    assert few.verdict == "not_measured" and "at least 6" in few.reason and few.ratio is None
    none = measure_overhead(starts, ends, [], origin_s=100.0)
    assert none.verdict == "not_measured"


@pytest.mark.parametrize("count", range(1, 31))
def test_any_number_of_pauses_has_an_answer(count):
    starts, ends = make_steps(PAUSES[:count], 0.005, 0.005, 40, noise=0.05)
    found = measure_overhead(starts, ends, PAUSES[:count], origin_s=100.0)
    assert (found.verdict == "not_measured") == (count < 6)
    assert (found.ratio is None) == (count < 6)


def test_steps_longer_than_a_pause_cannot_be_compared():
    starts, ends = make_steps(PAUSES, 2.0, 2.0, 40)
    assert measure_overhead(starts, ends, PAUSES, 100.0).verdict == "not_measured"


def test_pauses_stand_in_the_middle_of_their_cycles():
    plan = PausePlan(start_s=10.0, block_s=0.3, cycle_s=1.2, count=2)
    assert plan.pause_at(10.0) is None and plan.pause_at(9.0) is None
    assert plan.pause_at(10.5) == pytest.approx((10.45, 10.75))
    assert plan.pause_at(11.7) == pytest.approx((11.65, 11.95))
    assert plan.pause_at(12.9) is None  # only two cycles


def test_spans_keep_a_limited_time():
    spans = StepSpans(keep_s=1.0)
    assert spans.recent_step_s() is None and spans.trained_s == 0
    for first in range(0, 40, 2):
        start_s = first * 0.1
        ends_s = (start_s + 0.1, start_s + 0.2)
        spans.add(StepsDone(0, first, start_s=start_s, end_s=ends_s, loss=(None, None)))
    assert spans.trained_s == pytest.approx(1.2)
    assert spans.recent_step_s() == pytest.approx(0.1)
    spans.add(StepsDone(0, 40, start_s=4.0, end_s=(), loss=()))
    spans.add(EpochDone(0, start_s=0.0, end_s=4.0))
    assert len(spans.ends_s) == 12
