from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from trainload.analyse.attribution import LayerMemory, LayerNode, RankLayers, WindowCost, advise
from trainload.analyse.attribution.amounts import DIVIDED_FROM_S
from trainload.analyse.attribution.machine import FewThreads, Machine, Recompiling
from trainload.analyse.attribution.types import ROW_COLUMNS, HostTime, Traits, WindowTraits
from trainload.report.screen.short_advice import render_short_advice


def node(layer: str, forward_s: float) -> LayerNode:
    return LayerNode(
        root="Net", layer=layer, class_name=None, depth=1, forward_s=forward_s, backward_s=0.0,
        update_s=0.0, idle_s=0.0, inclusive_s=forward_s, calls=1.0, memory=None, energy=None,
    )  # fmt: skip


def rank(
    number: int = 0,
    nodes: tuple[LayerNode, ...] = (),
    device: str = "cuda:0",
    traits: Traits | None = None,
    **parts: float,
) -> RankLayers:
    named = {name.replace("idle_", "idle: "): time for name, time in parts.items()}
    fields: dict[str, Any] = {"traced_step_s": 1.0, "corrected": True, "busy_s": 1.0}
    return RankLayers(
        rank=number, device=device, step_s=sum(named.values()), explained_fraction=1.0,
        parts=named, hidden_communication_s=0.0, nodes=nodes, rows=pl.DataFrame(),
        cost=WindowCost(windows=1, cost_s=0.0, fraction=None, budget=None), notes=(),
        traits=traits or Traits(), **fields,
    )  # fmt: skip


def with_windows(*windows: dict[str, float], traits: Traits | None = None) -> RankLayers:
    """A rank whose windows each have the seconds given by kind (`idle_input`: idle, of a cause)."""
    rows = []
    for at, times in enumerate(windows):
        for name, time_s in times.items():
            kind, _, cause = name.partition("_")
            phase = "forward" if kind == "layer" else None
            rows.append((0, at, at, kind, None, None, phase, cause or None, time_s, time_s, None))
    kinds = (*(pl.Int64,) * 3, *(pl.String,) * 5, pl.Float64, pl.Float64, pl.Int64)
    frame = pl.DataFrame(rows, dict(zip(ROW_COLUMNS, kinds, strict=True)), orient="row")
    return replace(rank(forward=1.0, traits=traits), rows=frame)


def long_operations(calls: int) -> RankLayers:
    """A processor's step of one second, all of it so many operations of a layer."""
    made = with_windows({"layer": 1.0})
    rows = made.rows.with_columns(calls=pl.lit(calls, pl.Int64))
    return replace(made, rows=rows, device="cpu")


@pytest.mark.parametrize(
    ("part", "topic", "expected"),
    [
        ("input", "input_wait", 0.9),
        ("idle_input", "input_wait", 0.9),
        ("idle_host", "host_bound", 0.7),
        ("idle_synchronise", "synchronising", 0.8),
        ("copy", "copies", 0.8),
        ("communication", "communication", 0.3),
        ("remainder", "python", 0.9),
        ("script", "script_operations", 0.7),
    ],
)
def test_a_part_is_worth_a_word_where_it_gains_three_percent(
    part: str, topic: str, expected: float
) -> None:
    enough = 0.03 / expected
    assert advise([rank(**{part: enough - 0.01, "forward": 1.01 - enough})]) == ()
    (advice,) = advise([rank(**{part: enough + 0.01, "forward": 0.99 - enough})])
    assert (advice.topic, advice.subject) == (topic, None)
    assert advice.fraction == pytest.approx(enough + 0.01)
    assert advice.gain_s == pytest.approx(expected * (enough + 0.01))
    assert advice.gain_low_s is not None and advice.gain_high_s is not None
    assert advice.gain_low_s < advice.gain_s < advice.gain_high_s <= enough + 0.01


def test_the_largest_gain_comes_first_and_the_machine_before_it() -> None:
    step = rank(input=0.3, copy=0.2, idle_host=0.4, forward=0.1)
    assert [a.topic for a in advise([step])] == ["host_bound", "input_wait", "copies"]
    busy = Machine(host_load_fraction=0.999, run_load_fraction=0.52, quota_fraction=0.1)
    found = advise([step], busy)
    assert [a.topic for a in found[:2]] == ["contention", "cpu_quota"]
    assert found[0].evidence == "all cores 100% busy, this run 52%"
    # Only the host's work can be slowed by others: neither the device's nor waiting for input.
    assert found[0].fraction == pytest.approx(0.4 * 0.479 / 0.999)


def test_load_that_is_the_runs_own_is_no_contention() -> None:
    busy = Machine(host_load_fraction=0.99, run_load_fraction=0.95)
    assert advise([rank(forward=1.0, device="cpu")], busy) == ()


def test_throttling_and_swapping_come_first() -> None:
    slow = Machine(throttled_fraction=0.9, throttled="gpu0: hardware thermal slowdown")
    (advice,) = advise([rank(forward=1.0)], slow)
    assert (advice.topic, advice.subject) == ("throttling", "gpu0: hardware thermal slowdown")
    (advice,) = advise([rank(forward=1.0)], Machine(swapped_bytes=2.0**31, swap_fraction=0.1))
    assert (advice.topic, advice.evidence) == ("swapping", "2 GiB were swapped out")


def test_memory_that_the_system_gives_anew_is_a_matter_of_processors() -> None:
    paging = Machine(kernel_fraction=0.3, page_faults_per_s=240_000.0)
    (advice,) = advise([rank(forward=1.0, device="cpu")], paging)
    assert (advice.topic, advice.evidence) == ("page_faults", "240,000 page faults a second")
    assert (advice.fraction, advice.gain_s) == (pytest.approx(0.3), pytest.approx(0.7 * 0.3))
    little = replace(paging, kernel_fraction=0.04)
    assert advise([rank(forward=1.0, device="cpu")], little) == ()
    assert advise([rank(forward=1.0)], paging) == ()


def test_fewer_threads_than_free_cores_are_told_where_operations_are_long() -> None:
    few = Machine(few_threads=FewThreads(threads=1, cores=4))
    (advice,) = advise([long_operations(calls=10)], few)
    assert (advice.topic, advice.evidence) == ("few_threads", "1 thread on 4 free cores")
    divisible_s = 1.0 - 10 * DIVIDED_FROM_S
    assert advice.gain_s == pytest.approx(0.7 * 0.75 * divisible_s)
    # A second of operations of 40 µs each, and a GPU: nothing to gain by threads.
    short = advise([long_operations(calls=25_000)], few)
    assert "few_threads" not in [one.topic for one in short]
    assert advise([replace(long_operations(calls=10), device="cuda:0")], few) == ()


def test_compiling_again_is_a_matter_of_the_mean_step() -> None:
    again = Recompiling(count=6, time_s=30.0, training_s=40.0, steps=400, words="f (net.py:6)")
    (advice,) = advise([rank(forward=1.0)], Machine(recompiling=again))
    assert (advice.topic, advice.evidence) == ("recompilation", "6 times, last f (net.py:6)")
    assert advice.fraction == pytest.approx(0.75) and advice.mean_step_s == pytest.approx(0.1)
    assert advice.gain_s == pytest.approx(0.9 * 30 / 400)
    # Of the mean step, not of the traced one, which lasts a second here.
    assert render_short_advice(advice, device="cpu", step_s=1.0).startswith("saves about 68 %")
    seldom = replace(again, time_s=1.0)
    assert advise([rank(forward=1.0)], Machine(recompiling=seldom)) == ()


def test_every_window_must_agree() -> None:
    high, low = {"layer": 0.6, "idle_input": 0.4}, {"layer": 0.99, "idle_input": 0.01}
    (advice,) = advise([with_windows(high, high)])
    assert advice.topic == "input_wait" and advice.fraction == pytest.approx(0.4)
    assert advise([with_windows(high, low)]) == ()


def test_what_is_so_already_is_not_advised() -> None:
    step = rank(update=0.5, forward=0.5, traits=Traits(update="fused", optimizer="AdamW"))
    assert advise([step]) == ()
    single = replace(step, traits=Traits(update="single", optimizer="AdamW"))
    assert [(a.topic, a.subject) for a in advise([single])] == [("update_unfused", "AdamW")]
    assert advise([replace(step, traits=Traits())]) == ()  # nobody knows how it updates
    waits = rank(input=0.5, forward=0.5, traits=Traits(loader="workers"))
    assert [a.topic for a in advise([waits])] == ["input_workers"]
    idle = rank(idle_host=0.5, forward=0.5, traits=Traits(compiled=True))
    assert advise([idle])[0].evidence == "the model is compiled already"


def test_traits_of_windows_tell_copies_precision_and_validation() -> None:
    told = {0: WindowTraits(gradientless_fraction=0.4, full_precision_fraction=0.5)}
    step = with_windows({"layer": 1.0}, traits=Traits(windows=told))
    assert {a.topic: a.fraction for a in advise([step])} == {"gradientless": 0.4, "precision": 0.5}
    copies = {0: WindowTraits(copies_fraction=0.3)}
    step = replace(with_windows({"layer": 1.0}, traits=Traits(windows=copies)), device="cpu")
    assert [(a.topic, a.fraction) for a in advise([step])] == [("copies", 0.3)]
    double = rank(forward=1.0, device="cpu", traits=Traits(parameter_bytes=8.0))
    assert advise([double])[0].evidence == "8 bytes a parameter"


def test_a_straggler_is_the_rank_with_the_least_waiting() -> None:
    ranks = [rank(0, forward=0.5, communication=0.5), rank(1, forward=0.9, communication=0.1)]
    topics = {advice.topic: advice for advice in advise(ranks)}
    assert topics["straggler"].subject == "rank 1"
    assert topics["straggler"].fraction == pytest.approx(0.4)
    assert topics["communication"].subject == "rank 0"


def test_nothing_is_said_of_no_time() -> None:
    assert advise([rank()]) == ()
    assert advise([]) == ()


def test_memory_is_spoken_of_only_where_it_is_short() -> None:
    def holding(layer: str, activation_bytes: int | None) -> LayerNode:
        memory = LayerMemory(
            parameters=1, parameter_bytes=4, gradient_bytes=None, optimizer_bytes=None,
            activation_bytes=activation_bytes, peak_bytes=None,
        )  # fmt: skip
        return replace(node(layer, 0.1), memory=memory)

    step = rank(nodes=(holding("a", 88), holding("b", None), holding("c", 0)), forward=1.0)
    assert advise([step]) == ()
    (advice,) = advise([step], Machine(memory_fraction=0.92, memory="memory of gpu0"))
    assert (advice.topic, advice.subject, advice.fraction) == ("memory_short", "a", 0.92)
    assert advice.gain_s is None


def python_time(what: str, package: str, time_s: float) -> HostTime:
    return HostTime(
        part="python", what=what, package=package, file="train.py", function="main", line=41,
        time_s=time_s, samples=3,
    )  # fmt: skip


def test_python_between_calls_is_told_by_whose_it_is() -> None:
    step = replace(
        rank(python=0.5, forward=0.5),
        host=(python_time("script", "script", 0.3), python_time("progress bar", "tqdm", 0.2)),
    )
    (advice,) = advise([step])
    assert advice.topic == "python"
    assert advice.gain_s == pytest.approx(0.45)
    assert advice.evidence == "of that train.py:41 60%, progress bar (tqdm) 40%"


def test_pythons_advice_is_neither_of_torch_nor_of_the_tracing() -> None:
    host = (
        python_time("script", "script", 0.1),
        python_time("modules", "torch", 0.25),
        python_time("checkpoints", "torch", 0.1),
        python_time("tracing itself", "trainload", 0.05),
    )
    step = replace(rank(python=0.4, remainder=0.1, forward=0.5), host=host)
    found = {advice.topic: advice for advice in advise([step])}
    assert found["python"].fraction == pytest.approx(0.4 * 0.4 + 0.1)
    assert found["python"].evidence == "of that train.py:41 50%, checkpoints (torch) 50%"
    assert found["host_bound"].fraction == pytest.approx(0.4 * 0.5)
    assert set(found) == {"python", "host_bound"}
    alone = replace(step, host=host[3:], parts={"python": 0.4, "forward": 0.6})
    assert advise([alone]) == ()
