from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kineto import AUTOGRAD, MAIN, Trace, cpu_step

from trainload.analyse.attribution.host import choose_layering, follow_host, join_spans
from trainload.analyse.attribution.partition import (
    Part,
    StepParts,
    busiest_device,
    overlap_ns,
    partition,
)
from trainload.analyse.attribution.steps import find_steps


def split(trace: Trace) -> list[StepParts]:
    window = trace.window()
    _, steps = find_steps(window)
    host = follow_host(window, choose_layering(window), way_in_ns=0)
    return partition(window, host, steps, busiest_device(window))


def covered(spans: Iterable[tuple[int, int]], start: int, end: int) -> int:
    return overlap_ns(join_spans(list(spans)), start, end)


def test_a_cpu_step_instant_by_instant() -> None:
    trace = Trace()
    trace.mark(0, 0)
    cpu_step(trace, 0, 1)
    (step,) = split(trace)
    assert step.parts == {
        Part("input"): 100,
        Part("remainder"): 10 + 10 + 20 + 10,
        Part("idle", "Net", "", "forward", "host"): 10 + 10 + 10,
        Part("idle", "Net", "a", "forward", "host"): 10,
        Part("layer", "Net", "a", "forward"): 70,
        Part("idle", "Net", "b", "forward", "host"): 10 + 10,
        Part("layer", "Net", "b", "forward"): 160,
        Part("loss", phase="forward"): 50,
        Part("idle", phase="backward", cause="host"): 5 + 10 + 10,
        Part("loss", phase="backward"): 5 + 20,
        Part("idle", "Net", "b", "backward", "host"): 10,
        Part("layer", "Net", "b", "backward"): 190 + 10,
        Part("idle", "Net", "a", "backward", "host"): 10,
        Part("layer", "Net", "a", "backward"): 130,
        Part("idle", phase="update", cause="host"): 20 + 10,
        Part("layer", phase="update"): 80,
    }
    assert step.calls[Part("layer", "Net", "b", "backward")] == 2
    assert step.busy_ns == 70 + 160 + 50 + 5 + 20 + 200 + 130 + 80


def gpu_trace() -> Trace:
    """One step on a device that lags behind its host, backward on autograd's thread."""
    trace = Trace()
    trace.mark(0, 0)
    trace.host("layer:Net:a", 100, 200)
    trace.forward("aten::linear", 110, 190, 1)
    trace.kernel(300, 400, 150)
    trace.forward("aten::mse_loss", 210, 230, 2)
    trace.kernel(400, 420, 220)
    trace.node("MseLossBackward0", 300, 500, 2, AUTOGRAD)
    trace.kernel(510, 530, 400, thread=AUTOGRAD)
    trace.node("AddmmBackward0", 540, 600, 1, AUTOGRAD)
    trace.kernel(620, 720, 560, thread=AUTOGRAD)
    trace.host("cudaStreamSynchronize", 650, 900, category="cuda_runtime")
    trace.host("Optimizer.step#SGD.step", 920, 980, category="user_annotation")
    trace.kernel(1000, 1100, 950)
    trace.mark(1, 990)
    return trace


def test_a_gpu_step_runs_to_the_end_of_its_last_kernel() -> None:
    (step,) = split(gpu_trace())
    assert (step.begin_ns, step.end_ns) == (0, 1100)
    assert step.parts == {
        Part("remainder"): 100 + 10 + 20 + 20 + 20,
        Part("idle", "Net", "a", "forward", "host"): 100,
        Part("idle", phase="forward", cause="host"): 20,
        Part("layer", "Net", "a", "forward"): 100,
        Part("loss", phase="forward"): 20,
        Part("idle", phase="backward", cause="host"): 70 + 80,
        Part("loss", phase="backward"): 20,
        Part("idle", "Net", "a", "backward", "host"): 10 + 10 + 60,
        Part("layer", "Net", "a", "backward"): 100,
        Part("idle", cause="synchronise"): 180 + 60,
        Part("layer", phase="update"): 100,
    }
    assert step.busy_ns == 100 + 20 + 20 + 100 + 100


def test_what_is_prepared_after_a_wait_is_the_waits_but_python_is_not() -> None:
    trace = Trace()
    trace.mark(0, 0)
    trace.host("layer:Net:a", 0, 100)
    trace.kernel(100, 300, 10)
    trace.host("aten::item", 120, 320)
    trace.host("cudaStreamSynchronize", 130, 310, category="cuda_runtime")
    trace.host("layer:Net:b", 340, 400)
    trace.kernel(390, 500, 380)
    trace.kernel(540, 600, 530)
    trace.host("layer:Net:c", 510, 560)
    trace.mark(1, 600)
    (step,) = split(trace)
    # After the wait: 20 until it has returned, 20 of Python, 50 of the next layer's preparing.
    assert step.parts[Part("idle", cause="synchronise")] == 20 + 50
    # The gap behind b began with the host elsewhere: c's preparing is its own.
    assert step.parts[Part("idle", "Net", "c", "forward", "host")] == 30


def test_communication_behind_computing_is_hidden_and_copies_yield() -> None:
    trace = Trace()
    trace.mark(0, 0)
    trace.host("layer:Net:a", 0, 500)
    trace.kernel(100, 300, 10)
    trace.kernel(200, 450, 20, stream=8, name="ncclDevKernel_AllReduce")
    trace.kernel(250, 480, 30, stream=9, category="gpu_memcpy", name="Memcpy HtoD")
    trace.mark(1, 500)
    (step,) = split(trace)
    assert step.hidden_ns == 100
    assert step.parts[Part("layer", "Net", "a", "forward")] == 200
    assert step.parts[Part("communication")] == 150
    assert step.parts[Part("copy")] == 30
    assert step.busy_ns == 380


def test_a_communication_beside_a_cpu_counts_only_where_nothing_runs() -> None:
    trace = Trace()
    trace.mark(0, 0)
    trace.host("layer:Net:a", 0, 300)
    trace.host("aten::mm", 0, 200)
    trace.host("gloo:all_reduce", 100, 450, 99, "user_annotation")
    trace.mark(1, 500)
    (step,) = split(trace)
    assert step.hidden_ns == 100
    assert step.parts == {
        Part("layer", "Net", "a", "forward"): 200,
        Part("communication"): 100 + 150,
        Part("remainder"): 50,
    }


NAMES = st.sampled_from(
    [
        "layer:Net:", "layer:Net:a", "layer:b", "loss:MSELoss", "trainload.backward",
        "Optimizer.step#A", "enumerate(DataLoader)#x", "aten::mm", "c10d::allreduce_",
        "gloo:all_reduce", "my range", "cudaStreamSynchronize", "autograd::engine::"
        "evaluate_function: torch::autograd::AccumulateGrad",
    ]
)  # fmt: skip
SPAN = st.tuples(st.integers(-50, 1200), st.integers(0, 400))
HOST = st.tuples(NAMES, SPAN, st.sampled_from([MAIN, AUTOGRAD]), st.integers(-1, 3))
WORK = st.sampled_from(["gemm", "ncclAllReduce", "memcpy", "memset"])
KERNEL = st.tuples(WORK, SPAN, st.integers(-50, 1200), st.sampled_from([7, 8]))


def random_trace(host: list, kernels: list, marks: list[int]) -> Trace:  # type: ignore[type-arg]
    trace = Trace()
    for number, at in enumerate(sorted(marks)):
        trace.mark(number, at)
    for name, (start, length), thread, sequence in host:
        category = "cpu_op"
        if name.startswith(("gloo", "my", "Opt")):
            category = "user_annotation"
        if name.startswith("cuda"):
            category = "cuda_runtime"
        numbers = {"Sequence number": sequence, "Fwd thread id": 0} if sequence >= 0 else {}
        trace.host(name, start, start + length, thread, category, **numbers)
        if sequence == 3:
            trace.node("X", start + 5, start + 5 + length, 1, thread)
    for name, (start, length), launched, stream in kernels:
        category = "gpu_" + name if name.startswith("mem") else "kernel"
        trace.kernel(start, start + length, launched, stream=stream, category=category, name=name)
    return trace


MARKS = st.lists(st.integers(0, 1000), min_size=2, max_size=4, unique=True)


@given(host=st.lists(HOST, max_size=25), marks=MARKS)
def test_the_parts_of_a_cpu_step_sum_to_it(host: list, marks: list[int]) -> None:  # type: ignore[type-arg]
    trace = random_trace(host, [], marks)
    steps = split(trace)
    assert len(steps) == len(marks) - 1
    talks = [(s, s + n) for name, (s, n), *_ in host if name.startswith("gloo")]
    for step in steps:
        assert sum(step.parts.values()) == step.length_ns
        assert min(step.parts.values()) > 0
        talking = covered(talks, step.begin_ns, step.end_ns)
        assert step.hidden_ns <= talking
        shown = step.parts.get(Part("communication"), 0)
        if not any(name.startswith("c10d") for name, *_ in host):
            assert shown + step.hidden_ns <= talking


@given(
    host=st.lists(HOST, max_size=15),
    kernels=st.lists(KERNEL, min_size=1, max_size=15),
    marks=MARKS,
)
def test_the_parts_of_a_gpu_step_sum_to_it_and_kernels_to_their_union(
    host: list,  # type: ignore[type-arg]
    kernels: list,  # type: ignore[type-arg]
    marks: list[int],
) -> None:
    host = [event for event in host if not event[0].startswith(("gloo", "c10d"))]
    trace = random_trace(host, kernels, marks)
    everything = [(s, s + n) for _, (s, n), *_ in kernels]
    talks = [(s, s + n) for name, (s, n), *_ in kernels if name.startswith("nccl")]
    computes = [(s, s + n) for name, (s, n), *_ in kernels if name in ("gemm", "memset")]
    for step in split(trace):
        begin, end = step.begin_ns, step.end_ns
        assert sum(step.parts.values()) == step.length_ns
        busy = covered(everything, begin, end)
        assert step.busy_ns == busy
        # A loader that launches kernels shows as input, which no idle part does on a device.
        idle = sum(n for part, n in step.parts.items() if part.kind in ("idle", "remainder"))
        assert step.length_ns - idle == busy
        talking = covered(talks, begin, end)
        computing = covered(computes, begin, end)
        assert step.parts.get(Part("communication"), 0) + step.hidden_ns == talking
        both = talking + computing - covered(talks + computes, begin, end)
        assert step.hidden_ns == both


def test_steps_of_a_trace_that_lost_a_mark_are_left_out() -> None:
    trace = Trace()
    trace.host("aten::mm", 0, 10)
    for number, at in ((0, 0), (1, 100), (3, 300), (4, 400)):
        trace.mark(number, at)
    source, steps = find_steps(trace.window())
    assert source == "marks"
    assert [step.step for step in steps] == [1, 4]


def test_torchs_own_steps_and_the_whole_trace_serve_without_marks() -> None:
    trace = Trace()
    trace.host("aten::mm", 5, 10)
    assert [(s.begin_ns, s.end_ns) for s in find_steps(trace.window())[1]] == [(5, 10)]
    trace.host("ProfilerStep#7", 0, 100, category="user_annotation")
    trace.host("ProfilerStep#8", 100, 150, category="user_annotation")
    source, steps = find_steps(trace.window())
    assert source == "ProfilerStep ranges"
    assert [(s.step, s.begin_ns, s.end_ns) for s in steps] == [(7, 0, 100), (8, 100, 150)]


@pytest.mark.parametrize("spans", [[], [(5, 10)], [(0, 3), (8, 12), (12, 13)]])
def test_overlap_counts_each_instant_once(spans: list[tuple[int, int]]) -> None:
    joined = join_spans(spans)
    for start in range(15):
        for end in range(start, 15):
            inside = sum(any(a <= t < b for a, b in spans) for t in range(start, end))
            assert overlap_ns(joined, start, end) == inside


def test_a_trace_of_the_host_alone_still_sees_autograds_thread() -> None:
    trace = Trace()
    trace.mark(0, 0)
    trace.host("layer:Net:a", 0, 100)
    trace.forward("aten::linear", 0, 100, 1)
    trace.host("trainload.backward", 100, 400)
    trace.node("AddmmBackward0", 150, 350, 1, AUTOGRAD)
    trace.mark(1, 400)
    (step,) = split(trace)
    backward = Part("layer", "Net", "a", "backward")
    assert step.parts == {
        Part("layer", "Net", "a", "forward"): 100,
        Part("idle", "Net", "a", "backward", "host"): 50,
        backward: 200,
        Part("idle", phase="backward", cause="host"): 50,
    }
    assert step.calls[backward] == 1
