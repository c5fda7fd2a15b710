"""Sampling of the main thread: what is seen, what is left alone, and that nothing is disturbed."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from trainload_worker.windows import host_stacks, thread_timer
from trainload_worker.windows.host_stacks import StackSampler, place_of
from trainload_worker.windows.thread_timer import ThreadTimer, TimerRefused

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="timers of Linux")


def spin(seconds):
    """Python that calls nothing long."""
    end = time.process_time() + seconds
    turns = 0
    while time.process_time() < end:
        turns += 1
    return turns


def nothing(_step):
    """Stands in for the trace's mark."""


def sample(work, step_s=0.02):
    sampler = StackSampler()
    sampler.start(step_s)
    try:
        sampler.mark(0, nothing)
        work()
        sampler.mark(1, nothing)
    finally:
        sampler.stop()
    return sampler.take(3)


def ticks_by_function(found):
    counts = {}
    for _, count, stack in found.samples:
        function = found.frames[found.stacks[stack][0]][2]
        counts[function] = counts.get(function, 0) + count
    return counts


def test_a_stack_is_told_from_its_innermost_frame_out_with_lines():
    found = sample(lambda: spin(0.05))
    assert (found.index, found.note, found.period_ns) == (3, None, 300_000)
    assert found.taken == len(found.samples) > 10
    stack = found.stacks[found.samples[5][2]]
    names = [found.frames[at][2] for at in stack]
    assert names[:3] == ["spin", "<lambda>", "sample"]
    first = spin.__code__.co_firstlineno
    assert first < found.frames[stack[0]][3] <= first + 5
    assert [step for step, *_ in found.marks] == [0, 1]
    assert 0 < found.own_s < 0.05
    assert all(before <= after for _, before, after in found.marks)


def test_a_long_call_into_c_holds_all_ticks_that_came_in_it():
    spent_ns = []

    def add_many():
        begin_ns = time.perf_counter_ns()
        sum(range(3_000_000))
        spent_ns.append(time.perf_counter_ns() - begin_ns)

    found = sample(add_many)
    due = sum(count for _, count, _ in found.samples)
    assert found.taken < due / 2  # one call, and one reading of the stack
    told_ns = ticks_by_function(found)["add_many"] * found.period_ns
    assert told_ns == pytest.approx(spent_ns[0], rel=0.3)


def test_a_tick_within_another_s_handler_is_the_program_s(monkeypatch):
    """Where the machine is busy the next one comes before the handler has run a line."""
    found = []

    class Nested:
        def on_tick(self, _number, _frame):
            found.append(sys._getframe(1))

    monkeypatch.setattr(thread_timer, "_ticking", [Nested()])
    thread_timer.on_signal(0, sys._getframe())
    sampler = StackSampler()
    sampler._on, sampler._period_ns, sampler._first_ns = True, 10**9, time.monotonic_ns() - 10**9
    sampler._on_tick(0, found[0])  # of both ticks
    sampler._on_tick(0, sys._getframe())  # what was left of the first
    told = sampler.take(0)
    own = test_a_tick_within_another_s_handler_is_the_program_s.__name__
    assert [(first, count) for first, count, _ in told.samples] == [(0, 2)]
    assert ticks_by_function(told) == {own: 2}


def test_no_two_samples_are_due_at_once():
    found = sample(lambda: (spin(0.02), time.sleep(0.02), spin(0.02)))
    at = -1
    for first, count, _ in found.samples:
        assert first > at
        assert count >= 1
        at = first + count - 1


def test_what_was_interrupted_goes_on():
    """Sleeping, waiting and reading take as long, and give what, they would alone."""
    reader, writer = os.pipe()
    threading.Timer(0.03, lambda: os.write(writer, b"x")).start()
    slept = []

    def work():
        start = time.monotonic()
        time.sleep(0.03)
        slept.append(time.monotonic() - start)
        assert os.read(reader, 1) == b"x"
        assert not threading.Event().wait(0.02)

    sample(work)
    assert slept[0] >= 0.03
    os.close(reader)
    os.close(writer)


def test_the_programs_own_timers_and_handlers_stay():
    seen = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append("alarm"))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        found = sample(lambda: spin(0.05))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert seen == ["alarm"]
    assert found.taken > 10


def test_a_signal_that_somebody_uses_is_not_taken(monkeypatch):
    monkeypatch.setattr(thread_timer, "_signals", [])
    monkeypatch.setattr(thread_timer, "_used_signals", lambda: (1 << 64) - 1)
    with pytest.raises(TimerRefused, match="every real-time signal"):
        ThreadTimer(lambda *_: None).start(1_000_000)


def test_a_signal_taken_by_the_program_later_is_left_to_it():
    timer = ThreadTimer(lambda *_: None)
    timer.start(1_000_000)
    timer.stop()
    taken = thread_timer._signals[-1]
    theirs = lambda *_: None  # noqa: E731
    signal.signal(taken, theirs)
    timer.start(1_000_000)
    timer.stop()
    assert signal.getsignal(taken) is theirs
    assert thread_timer._signals[-1] != taken


def test_one_alone_samples_a_process_and_each_in_turn_by_the_same_signal():
    first = StackSampler()
    first.start(0.01)
    try:
        assert sample(lambda: None).note == "another one samples this process already"
    finally:
        first.stop()
    used = len(thread_timer._signals)
    assert [sample(lambda: spin(0.01)).note for _ in range(40)] == [None] * 40
    assert len(thread_timer._signals) == used


def test_another_thread_is_not_sampled_and_that_is_told():
    sampler = StackSampler()
    thread = threading.Thread(target=lambda: (sampler.start(0.01), sampler.stop()))
    thread.start()
    thread.join()
    found = sampler.take(0)
    assert found.note == "the training does not run in the main thread"
    assert found.samples == ()


def test_an_error_while_sampling_never_reaches_the_program(monkeypatch):
    def fail(*_):
        raise ValueError("broken")

    monkeypatch.setattr(StackSampler, "_note", fail)
    found = sample(lambda: spin(0.02))
    assert found.note == "ValueError: broken"


def test_a_window_without_end_stays_small(monkeypatch):
    monkeypatch.setattr(host_stacks, "MOST_SAMPLES", 5)
    monkeypatch.setattr(host_stacks, "MOST_FRAMES", 2)
    found = sample(lambda: spin(0.05))
    assert found.taken == 5
    assert {len(stack) for stack in found.stacks} <= {1, 2}


def test_a_process_ends_well_whatever_is_still_ticking():
    """In the middle of a window: at its end, after a fork, and with a child of its own."""
    script = textwrap.dedent("""
        import os, subprocess, sys
        from trainload_worker.windows.host_stacks import StackSampler
        sampler = StackSampler()
        sampler.start(0.0001)
        if os.fork() == 0:
            sampler.stop()
            sys.exit(0)
        assert os.wait()[1] == 0
        child = [sys.executable, "-c", "import time; time.sleep(0.05)"]
        assert subprocess.run(child).returncode == 0
        print("ended")
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/x/lib/python3.11/site-packages/tqdm/std.py", ("tqdm", "tqdm/std.py")),
        ("/usr/lib/python3/dist-packages/six.py", ("six", "six.py")),
        (threading.__file__, ("python", "threading.py")),
        (host_stacks.__file__, ("trainload", "trainload_worker/windows/host_stacks.py")),
        ("<frozen importlib._bootstrap>", ("python", "<frozen importlib._bootstrap>")),
        ("/home/somebody/secret/project/train.py", ("script", "project/train.py")),
        (os.path.join(os.getcwd(), "deep", "train.py"), ("script", "deep/train.py")),
    ],
)
def test_places_are_told_without_the_way_to_them(path, place):
    assert place_of(path) == place
