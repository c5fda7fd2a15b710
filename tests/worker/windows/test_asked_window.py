"""A window that somebody asks for: had soon, once for each wish, beside those that are planned."""

import os

from trainload_worker.windows.asked import AskedWindow
from trainload_worker.windows.plan import LOOK_S, MOST_BYTES, WindowPlan


def steps_until_window(plan, now_s, step_s=0.01, most=5000):
    """Steps until a window opens and its purpose, and the time; None without one."""
    for step in range(1, most):
        now_s += step_s
        if plan.pass_step(now_s):
            continue
        shape = plan.count_step(now_s)
        if shape is not None:
            plan.note_window(now_s, now_s + 1.0, shape.warm_steps + shape.steps, 1000)
            return step, shape.purpose, now_s + 1.0
    return None


def wishes(*answers):
    """Tells of a wish where the next answer says so; no more answers: none."""
    left = list(answers)
    return lambda: bool(left) and left.pop(0)


def test_a_wish_is_had_within_a_second_though_the_budget_is_spent():
    asked = []
    plan = WindowPlan(0.0001, asked=lambda: bool(asked) and asked.pop())
    _, _, now_s = steps_until_window(plan, 100.0)
    assert steps_until_window(plan, now_s) is None  # the budget allows none for long
    asked.append(True)
    now_s += 60
    step, purpose, now_s = steps_until_window(plan, now_s)
    assert step <= LOOK_S / 0.01 + 2 and purpose == "time"
    assert steps_until_window(plan, now_s) is None  # one wish, one window


def test_a_wish_takes_no_planned_window_s_place():
    plan = WindowPlan(0.5, asked=wishes(False, False, True))
    purposes, now_s = [], 100.0
    for _ in range(4):
        _, purpose, now_s = steps_until_window(plan, now_s, step_s=0.1)
        purposes.append(purpose)
    assert sorted(purposes) == ["memory", "time", "time", "time"]


def test_a_wish_waits_until_steps_are_usual_and_disk_is_left():
    plan = WindowPlan(0.03, asked=wishes(True))
    step, _, now_s = steps_until_window(plan, 100.0)
    assert step > 3
    plan = WindowPlan(0.03, asked=wishes(False, True))
    plan.bytes = MOST_BYTES
    _, _, now_s = steps_until_window(plan, 100.0)
    assert steps_until_window(plan, now_s) is None


def test_the_file_is_taken_away_and_only_a_plain_one_counts(tmp_path):
    path = tmp_path / "window-ask.txt"
    asked = AskedWindow(str(path))
    assert asked() is False
    path.touch()
    assert asked() is True and not path.exists() and asked() is False
    os.symlink(tmp_path / "elsewhere", path)
    assert asked() is False
    path.unlink()
    os.mkfifo(path)
    assert asked() is False
