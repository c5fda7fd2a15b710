"""When windows are opened: early twice, then only as far as the budget goes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainload_worker.windows.plan import (
    FIRST_STEPS,
    MOST_BYTES,
    QUIET_STEPS,
    WindowPlan,
    WindowShape,
)
from trainload_worker.windows.together import AHEAD_STEPS, Agreement


def simulate(
    budget, step_s, total_steps, window_extra_s, size_bytes=1000, counts_all=False, dear=False
):
    """Follow a plan through a training; the windows it opened as (step, shape, begin, end)."""
    plan, now_s, step, windows = WindowPlan(budget), 100.0, 0, []
    plan.dear = dear
    while step < total_steps:
        now_s += step_s
        step += 1
        if not counts_all and plan.pass_step(now_s):
            continue
        shape = plan.count_step(now_s)
        if shape is not None:
            begin_s, count = now_s, shape.warm_steps + shape.steps
            now_s += count * step_s + window_extra_s
            plan.note_window(begin_s, now_s, count, size_bytes)
            windows.append((step, shape, begin_s, now_s))
            step += count
    return plan, now_s - 100.0, windows


def test_one_window_comes_early_and_the_next_when_the_budget_allows():
    _, _, windows = simulate(0.03, 0.01, 200, window_extra_s=0.5)
    assert [shape.purpose for _, shape, _, _ in windows] == ["time"]
    _, _, windows = simulate(0.03, 0.01, 9000, window_extra_s=0.5)
    assert [shape.purpose for _, shape, _, _ in windows] == ["time", "memory", "time"]
    assert windows[0][0] == FIRST_STEPS
    first_end = windows[0][0] + windows[0][1].warm_steps + windows[0][1].steps
    assert windows[1][0] - first_end >= QUIET_STEPS


@given(
    budget=st.floats(0.005, 0.5),
    step_s=st.floats(0.0005, 0.9),
    window_extra_s=st.floats(0.0, 2.0),
    total_steps=st.integers(50, 3000),
)
def test_later_windows_keep_to_the_budget(budget, step_s, window_extra_s, total_steps):
    plan, elapsed_s, windows = simulate(budget, step_s, total_steps, window_extra_s)
    if len(windows) > 1:
        assert plan.cost_s <= budget * elapsed_s + 1e-6
    assert plan.cost_s == pytest.approx(len(windows) * window_extra_s, rel=0.02, abs=1e-6)


@given(
    budget=st.floats(0.005, 0.5),
    step_s=st.floats(0.0005, 0.9),
    window_extra_s=st.floats(0.0, 2.0),
    size_bytes=st.sampled_from([1000, MOST_BYTES // 3]),
)
def test_steps_passed_over_change_no_window(budget, step_s, window_extra_s, size_bytes):
    arguments = budget, step_s, 3000, window_extra_s, size_bytes
    plan, _, windows = simulate(*arguments)
    other, _, expected = simulate(*arguments, counts_all=True)
    assert windows == expected
    assert (plan.step_s, plan.slowdown) == (other.step_s, other.slowdown)


def test_most_steps_between_windows_are_passed_over():
    plan, passed, now_s = WindowPlan(0.03), 0, 0.0
    for _ in range(3000):
        now_s += 0.01
        if plan.pass_step(now_s):
            passed += 1
        elif plan.count_step(now_s) is not None:
            plan.note_window(now_s, now_s + 0.1, 3, 1000)
            now_s += 0.1
    assert plan.windows > 2
    assert passed > 2500


def test_steps_let_pass_for_a_while_come_before_the_next_window():
    plan, now_s = WindowPlan(0.03), 100.0
    for _ in range(FIRST_STEPS):
        assert plan.idle_until(now_s) <= now_s  # the first is due whatever it costs
        now_s += 0.002
        shape = plan.count_step(now_s)
    assert shape is not None
    plan.note_window(now_s, now_s + 0.1, 3, 1000)
    now_s += 0.1
    while plan.idle_until(now_s) <= now_s:
        now_s += 0.002
        assert plan.count_step(now_s) is None
    until_s = plan.idle_until(now_s)
    # Two windows of 0.094 s at two thirds of 3 % of the time since the second step.
    assert until_s == pytest.approx(100.002 + 2 * 0.094 / 0.02, abs=0.1)
    steps = int((until_s - now_s) / 0.002)
    plan.pass_steps(steps, until_s)
    assert plan.step_s == pytest.approx(0.002, rel=0.01)
    shapes = [plan.count_step(until_s + 0.002 * number) for number in range(1, 5)]
    assert any(shape is not None for shape in shapes)


def test_windows_thin_out_over_a_long_run():
    _, elapsed_s, windows = simulate(0.03, 0.05, 72_000, window_extra_s=0.01)
    assert elapsed_s > 3600
    assert 20 < len(windows) < 90


def test_windows_end_when_their_files_have_grown_too_large():
    _, _, windows = simulate(0.03, 0.05, 20_000, 0.01, size_bytes=MOST_BYTES // 4)
    assert len(windows) == 4


@pytest.mark.parametrize(("step_s", "first"), [(0.03, 1), (0.002, 2)])
def test_where_traces_are_dear_the_first_window_holds_one_large_step(step_s, first):
    _, _, windows = simulate(0.03, step_s, 20_000, window_extra_s=0.2, dear=True)
    timed = [shape.steps for _, shape, _, _ in windows if shape.purpose == "time"]
    assert timed[0] == first
    assert set(timed[1:]) == {2}
    assert all(shape.warm_steps == 1 for _, shape, _, _ in windows)


def test_a_long_step_is_traced_alone():
    _, _, windows = simulate(0.03, 30.0, 40, window_extra_s=1.0)
    assert [(shape.warm_steps, shape.steps) for _, shape, _, _ in windows[:2]] == [(0, 1), (0, 1)]
    assert windows[0][0] < FIRST_STEPS


def test_processes_that_train_together_trace_the_same_steps(tmp_path):
    path = str(tmp_path / "plan")
    leader, follower = Agreement(path, leads=True), Agreement(path, leads=False)
    late = Agreement(path, leads=False)
    shapes = {}
    for step in range(100):
        wanted = WindowShape("time", 1, 2) if step in (10, 11, 60) else None
        opened = leader.settle(step, wanted)
        # What a follower wants for itself does not count.
        assert follower.settle(step, WindowShape("memory", 0, 1)) == opened
        if opened is not None:
            shapes[step] = opened
    assert shapes == {10 + AHEAD_STEPS: WindowShape("time", 1, 2), 60 + AHEAD_STEPS: shapes[63]}
    assert late.settle(80, None) is None  # it came after the step


def test_nobody_decided_yet(tmp_path):
    assert Agreement(str(tmp_path / "none"), leads=False).settle(5, None) is None


def test_two_windows_rest_between_them():
    plan, now_s, due = WindowPlan(0.5, rest_s=0.3), 100.0, []
    for _ in range(200):
        now_s += 0.01
        if plan.count_step(now_s) is not None:
            due.append(now_s)
            plan.note_window(now_s, now_s + 0.03, 3, 1000)
            now_s += 0.03
    assert due[1] - due[0] >= 0.3


@pytest.mark.parametrize(("factor", "stops"), [(1.0, False), (1.04, False), (1.3, True)])
def test_what_stays_after_a_window_is_seen(factor, stops):
    plan, now_s = WindowPlan(0.03), 100.0
    for _ in range(FIRST_STEPS):
        now_s += 0.01
        plan.count_step(now_s)
    plan.note_window(now_s, now_s + 0.03, 3, 1000)
    now_s += 0.03
    assert plan.slowdown is None
    for _ in range(30):
        now_s += 0.01 * factor
        plan.count_step(now_s)
    now_s += 5.0  # a validation in between
    plan.count_step(now_s)
    assert plan.slowdown == pytest.approx(factor, rel=0.01)
    assert plan.exceeds(plan.slowdown) is stops
