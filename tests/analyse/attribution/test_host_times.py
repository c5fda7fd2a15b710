"""What samples of the host's stack say of a step's gaps: counted where they are due, sums kept."""

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kineto import Trace, cpu_step

from trainload.analyse.attribution.header import parse_header
from trainload.analyse.attribution.host import choose_layering, follow_host
from trainload.analyse.attribution.host_places import TRACING, place_of
from trainload.analyse.attribution.host_times import LEAST_SAMPLES, HostTimes, host_groups
from trainload.analyse.attribution.partition import PYTHON, REMAINDER, Part, StepParts, partition
from trainload.analyse.attribution.stacks import Frame, WindowStacks, parse_stacks
from trainload.analyse.attribution.steps import find_marks, find_steps
from trainload_worker.protocol.checked import to_json
from trainload_worker.protocol.windows import HostStacks

SCRIPT = Frame("script", "train.py", "main", 41)
TQDM = Frame("tqdm", "tqdm/std.py", "refresh", 1300)
ADAM = Frame("torch", "torch/optim/adam.py", "step", 220)
COVER = Frame("torch", "torch/optim/optimizer.py", "wrapper", 500)
TRAINER = Frame("lightning", "lightning/pytorch/loops/fit_loop.py", "advance", 90)
UPDATING = Part("idle", phase="update", cause="host")


def window_of(samples: list[tuple[int, int, int]], **changes: Any) -> WindowStacks:
    """Samples every 100 ns from instant 0 on; the host's clock is 5,000 ns behind the trace's."""
    return replace(
        WindowStacks(
            index=0,
            period_ns=100,
            taken=len(samples),
            own_s=1e-6,
            first_ns=1_000_000 - 5_000,
            frames=(SCRIPT, TQDM, ADAM, COVER, TRAINER),
            stacks=((0,), (1, 0), (2, 3, 0), (4, 3, 0)),
            samples=tuple(samples),
            marks={0: (994_990, 995_010), 1: (995_900, 997_000)},
        ),
        **changes,
    )


TRACE_MARKS = {0: 1_000_000, 1: 1_001_000}


def step_of(*gaps: tuple[int, int, Part]) -> StepParts:
    """A step of 1,000 ns from instant 0 on that is these gaps, and otherwise work."""
    placed = [(1_000_000 + start, 1_000_000 + end, part) for start, end, part in gaps]
    parts = StepParts(step=1, begin_ns=1_000_000, end_ns=1_001_000, gaps=placed)
    for start, end, part in gaps:
        parts.add(part, end - start)
    parts.add(Part("layer", "Net", "a", "forward"), 1000 - sum(parts.parts.values()))
    return parts


def counted(window: WindowStacks, step: StepParts) -> HostTimes:
    times = HostTimes()
    times.add(window, TRACE_MARKS, [step])
    times.name_remainder([(0, step)])
    return times


def test_a_sample_counts_for_the_gap_it_was_due_in_not_where_it_was_read() -> None:
    """Ticks 3, 4 and 5 came in one long call, whose line is the script's; 3 in an operation."""
    step = step_of((0, 250, REMAINDER), (350, 600, REMAINDER), (600, 900, UPDATING))
    window = window_of([(0, 1, 1), (1, 1, 0), (2, 1, 0), (3, 3, 0), (6, 1, 2), (7, 1, 2)])
    times = counted(window, step)
    assert step.parts[PYTHON] == 500
    assert REMAINDER not in step.parts
    found = times.times({"python": 500e-9, "idle: host": 300e-9})
    assert [(one.part, one.what, one.place, one.samples) for one in found] == [
        ("python", "script", "train.py:41", 3),
        ("idle: host", "optimizer", "torch/optim/adam.py:220", 2),
        ("python", "progress bar", "tqdm/std.py:1300", 1),
    ]
    assert [one.time_s for one in found] == pytest.approx([400e-9, 300e-9, 100e-9])


def test_a_closure_in_an_optimizers_step_is_not_the_update() -> None:
    step = step_of((0, 100, REMAINDER), (100, 801, UPDATING))
    window = window_of([(0, 1, 0), (1, 1, 3), (2, 1, 3), (3, 1, 3), (4, 1, 2)])
    times = counted(window, step)
    assert step.parts[UPDATING] == 701 - 701 * 3 // 4
    assert step.parts[PYTHON] == 100 + 701 * 3 // 4
    assert sum(step.parts.values()) == 1000
    groups = host_groups(times.times({"python": 1.0, "idle: host": 1.0}))
    assert {what for what, *_ in groups} == {"script", "trainer", "optimizer"}


def test_too_few_samples_name_nothing() -> None:
    step = step_of((0, 300, REMAINDER))
    times = counted(window_of([(0, 1, 0), (1, 1, 0)]), step)
    assert LEAST_SAMPLES == 3
    assert step.parts[REMAINDER] == 300
    assert times.times({"remainder": 300e-9}) == ()


def test_windows_without_samples_read_as_before() -> None:
    step = step_of((0, 300, REMAINDER))
    before = copy.deepcopy(step)
    times = HostTimes()
    times.add(None, TRACE_MARKS, [step])
    times.name_remainder([(0, step)])
    assert step == before
    assert times.sampling() is None
    assert parse_header({"rank": 0}).stacks == {}


def test_why_nothing_was_sampled_is_told() -> None:
    times = HostTimes()
    times.add(WindowStacks(index=0, note="no main thread"), TRACE_MARKS, [])
    sampling = times.sampling()
    assert sampling is not None
    assert (sampling.refusals, sampling.windows, sampling.rate_hz) == (("no main thread",), 0, None)


def test_the_rate_reached_is_of_stacks_read() -> None:
    window = window_of([(0, 1, 0), (1, 4, 0)], waited_s=0.199e-6)
    sampling = counted(window, step_of((0, 300, REMAINDER))).sampling()
    assert sampling is not None
    assert sampling.taken == 2
    assert sampling.rate_hz == pytest.approx(2 / 1990e-9)
    assert sampling.waited_fraction == pytest.approx(0.1)
    assert sampling.own_s == pytest.approx(0.5e-6)


def test_clocks_that_disagree_give_no_sample() -> None:
    late = {0: 1_000_000, 1: 1_001_000 + 5_000_000}
    assert list(window_of([(0, 1, 0)]).due(late)) == []
    assert list(window_of([(0, 1, 0)]).due({7: 3})) == []
    # The mark that was noted fastest tells, here with the trace 5,000 ns ahead.
    assert list(window_of([(0, 2, 0)]).due(TRACE_MARKS)) == [(1_000_000, 0, 0), (1_000_100, 0, 0)]


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), min_size=1, max_size=12
    )
)
def test_the_parts_still_sum_to_the_step(choices: list[tuple[int, int, bool]]) -> None:
    gaps, samples = [], []
    for at, (stack, length, update) in enumerate(choices):
        start = 80 * at
        gaps.append((start, start + 20 * length, UPDATING if update else REMAINDER))
        samples.append((at, 1, stack))
    step = step_of(*gaps)
    times = counted(window_of(samples), step)
    assert sum(step.parts.values()) == 1000
    assert all(time_ns >= 0 for time_ns in step.parts.values())
    named = {
        "python": step.parts.get(PYTHON, 0) / 1e9,
        "idle: host": step.parts.get(UPDATING, 0) / 1e9,
    }
    found = times.times(named)
    for part in ("python", "idle: host"):
        members = [one.time_s for one in found if one.part == part]
        if members:
            assert sum(members) == pytest.approx(named[part], abs=1e-15)


def test_the_partition_notes_the_hosts_gaps_in_order() -> None:
    trace = Trace()
    trace.mark(0, 0)
    cpu_step(trace, 0, 1)
    window = trace.window()
    _, steps = find_steps(window)
    host = follow_host(window, choose_layering(window), way_in_ns=0)
    (step,) = partition(window, host, steps, None)
    assert step.gaps == sorted(step.gaps, key=lambda gap: gap[0])
    held = {part: 0 for *_, part in step.gaps}
    for start, end, part in step.gaps:
        held[part] += end - start
    expected = {p: t for p, t in step.parts.items() if p.kind in ("idle", "remainder")}
    assert held == expected
    assert set(find_marks(window)) == {0, 1}


@pytest.mark.parametrize(
    ("frames", "what", "place"),
    [
        ([TQDM, TRAINER, SCRIPT], "progress bar", "tqdm/std.py"),
        ([TRAINER, COVER, SCRIPT], "trainer", "lightning/pytorch/loops/fit_loop.py"),
        ([Frame("python", "logging/__init__.py", "info", 5), SCRIPT], "logging",
         "logging/__init__.py"),
        ([Frame("python", "json/encoder.py", "iterencode", 5), SCRIPT], "script", "train.py"),
        ([Frame("torch", "torch/_ops.py", "__call__", 5), ADAM, SCRIPT], "optimizer",
         "torch/optim/adam.py"),
        ([Frame("torch", "torch/nn/modules/module.py", "__setattr__", 5), TRAINER], "trainer",
         "lightning/pytorch/loops/fit_loop.py"),
        ([Frame("torch", "torch/nn/modules/module.py", "_call_impl", 5), SCRIPT], "modules",
         "torch/nn/modules/module.py"),
        ([Frame("torch", "torch/utils/data/dataloader.py", "__next__", 5), SCRIPT], "loader",
         "torch/utils/data/dataloader.py"),
        ([Frame("lightning", "lightning/pytorch/trainer/call.py", "_call_callback_hooks", 2)],
         "callbacks", "lightning/pytorch/trainer/call.py"),
        ([Frame("lightning", "lightning/pytorch/core/module.py", "log", 2)], "logging",
         "lightning/pytorch/core/module.py"),
        ([Frame("transformers", "transformers/models/gpt2/modeling_gpt2.py", "forward", 2)],
         "model", "transformers/models/gpt2/modeling_gpt2.py"),
        ([Frame("sklearn", "sklearn/metrics/_base.py", "score", 2), SCRIPT], "sklearn",
         "sklearn/metrics/_base.py"),
        ([Frame("trainload", "trainload_worker/x.py", "hook", 2), SCRIPT], TRACING,
         "trainload_worker/x.py"),
        ([Frame("python", "threading.py", "wait", 2)], "python", "threading.py"),
    ],
)  # fmt: skip
def test_whose_a_stack_is(frames: list[Frame], what: str, place: str) -> None:
    found = place_of(frames)
    assert found is not None
    assert (found.what, found.file) == (what, place)


def test_what_the_worker_says_is_read_back() -> None:
    said = HostStacks(
        index=2, period_ns=200_000, taken=1, own_s=1e-5, first_ns=7, waited_s=0.5,
        frames=(("script", "train.py", "main", 41),), stacks=((0,),), samples=((0, 3, 0),),
        marks=((4, 10, 20),),
    )  # fmt: skip
    found = parse_stacks([to_json(said)])[2]
    assert found.frames_of(0) == (SCRIPT,)
    assert (found.samples, found.marks) == (((0, 3, 0),), {4: (10, 20)})
    assert (found.waited_s, found.note) == (0.5, None)


@pytest.mark.parametrize(
    "change",
    [
        {"stacks": [[5]]}, {"samples": [[0, 1, 9]]}, {"samples": [[0, -1, 0]]}, {"frames": [["a"]]},
        {"marks": [[1, 2]]}, {"period_ns": 0}, {"own_s": None}, {"index": "x"}, {"frames": None},
        {"first_ns": 1 << 70}, {"stacks": [["0"]]}, {"frames": [[1, 2, 3, 4]]},
    ],
)  # fmt: skip
def test_damaged_samples_of_a_stranger_are_left_out(change: dict[str, Any]) -> None:
    sound = {
        "index": 0, "period_ns": 100, "taken": 1, "own_s": 0.0, "first_ns": 0,
        "frames": [["script", "a.py", "f", 1]], "stacks": [[0]], "samples": [[0, 1, 0]],
        "marks": [[1, 2, 3]],
    }  # fmt: skip
    assert set(parse_stacks([sound, None, 5, {**sound, "index": 1} | change])) == {0}
