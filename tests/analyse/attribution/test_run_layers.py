from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kineto import HEADER, Trace, cpu_step

from trainload.analyse.attribution import ROW_COLUMNS, collect_trace, load_run_layers
from trainload.errors import TraceError
from trainload.record import open_run, save_manifest


def traced_steps(steps: int = 3) -> Trace:
    trace = Trace()
    marker = {"ph": "M", "name": "trainload.window", "ts": 0, "pid": 0, "tid": 0}
    trace.events.append({**marker, "args": {"index": 0}})
    trace.mark(0, 0)
    at = 0
    for step in range(1, steps + 1):
        at = cpu_step(trace, at, step, 3 * step)
    return trace


def add_memory(trace: Trace) -> None:
    """Layer a keeps 100 bytes and lets go of 50; b keeps 300; the loss's count to no layer."""
    for step in range(3):
        at, address = 1000 * step, 10 * step
        trace.memory(at + 140, address + 1, 100, 1100)
        trace.memory(at + 150, address + 2, 50, 1150)
        trace.memory(at + 160, address + 2, -50, 1100)
        trace.memory(at + 300, address + 3, 300, 1400)
        trace.memory(at + 420, address + 4, 8, 1408)
        trace.memory(at + 600, address + 5, 700, 2108)
        trace.memory(at + 650, address + 3, -300, 1808)
        trace.memory(at + 800, address + 1, -100, 1708)


def test_a_run_without_a_trace_has_no_layers(make_run: Any) -> None:
    assert load_run_layers(open_run(make_run())) is None


def test_a_run_is_corrected_to_its_untraced_steps(make_run: Any) -> None:
    path = make_run(step_s=0.05)
    traced_steps().save(path / "trace.json.gz", HEADER)
    heard: list[float] = []
    layers = load_run_layers(open_run(path), progress=heard.append)
    assert layers is not None
    (rank,) = layers.ranks
    assert rank.corrected
    assert rank.step_s == pytest.approx(0.05, rel=1e-3)
    assert rank.traced_step_s == 1e-6
    assert sum(rank.parts.values()) == pytest.approx(rank.step_s)
    # Faster than the untraced ones: on a CPU the whole step is stretched.
    assert rank.parts["backward"] == pytest.approx(330e-9 * 0.05 / 1e-6, rel=1e-3)
    assert rank.notes == ("a word of the worker",)
    assert rank.cost.windows == 1
    assert rank.cost.budget == 0.03
    assert rank.cost.fraction == pytest.approx(0.001 / 15.45, rel=1e-3)
    assert heard[-1] == 1.0
    assert heard == sorted(heard)
    # The step after the last to use is left out.
    assert rank.rows["step"].unique(maintain_order=True).to_list() == [1, 2]
    assert tuple(rank.rows.columns) == ROW_COLUMNS
    for _, rows in rank.rows.group_by("window", "step"):
        assert round(rows["traced_s"].sum() * 1e9) == 1000
        assert rows["time_s"].sum() == pytest.approx(rank.step_s, abs=1e-9)
    assert [advice.topic for advice in layers.advice] == [
        "input_wait", "host_bound", "memory_short",
    ]  # fmt: skip


def test_the_tree_adds_up_and_shares_the_update(make_run: Any) -> None:
    path = make_run()
    traced_steps().save(path / "trace.json.gz", HEADER)
    layers = load_run_layers(open_run(path))
    assert layers is not None
    rank = layers.ranks[0]
    model, a, b = rank.nodes
    assert [(n.layer, n.class_name, n.depth) for n in rank.nodes] == [
        ("", "Net", 0),
        ("a", "Linear", 1),
        ("b", "Linear", 1),
    ]
    scale = rank.step_s / 1e-6
    times = [time / scale for time in (a.forward_s, a.backward_s, a.update_s)]
    assert times == pytest.approx([70e-9, 130e-9, 20e-9])
    times = [time / scale for time in (b.forward_s, b.backward_s, b.update_s)]
    assert times == pytest.approx([160e-9, 200e-9, 60e-9])
    assert (a.calls, b.calls) == (2.0, 3.0)
    children = a.inclusive_s + b.inclusive_s
    assert model.inclusive_s == pytest.approx(model.exclusive_s + children)
    assert a.inclusive_s == pytest.approx(a.exclusive_s)
    assert a.energy is None


def test_memory_is_what_a_layer_keeps_for_backward(make_run: Any) -> None:
    path, trace = make_run(), traced_steps()
    add_memory(trace)
    trace.save(path / "trace.json.gz", HEADER)
    layers = load_run_layers(open_run(path))
    assert layers is not None
    model, a, b = (node.memory for node in layers.ranks[0].nodes)
    assert model and a and b
    assert (a.parameters, a.parameter_bytes, a.gradient_bytes) == (10, 40, 40)
    assert (a.activation_bytes, b.activation_bytes, model.activation_bytes) == (100, 300, 0)
    assert (a.peak_bytes, b.peak_bytes) == (1708, 2108)
    assert model.peak_bytes == 2108


def test_a_window_for_memory_gives_no_times_where_another_does(make_run: Any) -> None:
    path = make_run()
    trace, other = traced_steps(), traced_steps()
    add_memory(trace)
    other.events[0]["args"]["index"] = 1
    trace.events += other.events
    first = HEADER["windows"][0]
    windows = [{**first, "purpose": "memory"}, {**first, "index": 1, "last_step": 1}]
    trace.save(path / "trace.json.gz", {**HEADER, "windows": windows})
    layers = load_run_layers(open_run(path))
    assert layers is not None
    rows = layers.ranks[0].rows
    assert rows.select("window", "step").unique().rows() == [(1, 1)]
    memory = layers.ranks[0].nodes[1].memory
    assert memory and memory.activation_bytes == 100


def test_energy_is_mean_power_times_time_with_the_spread_of_power(make_run: Any) -> None:
    path = make_run(gpu=True)
    traced_steps().save(path / "trace.json.gz", {**HEADER, "device": "cuda:0"})
    layers = load_run_layers(open_run(path))
    assert layers is not None
    for node in layers.ranks[0].nodes:
        assert node.energy is not None
        assert node.energy.energy_j == pytest.approx(300.0 * node.inclusive_s, rel=1e-3)
        assert node.energy.low_j < node.energy.energy_j
        assert node.energy.high_j >= node.energy.energy_j


def test_each_process_has_its_own_layers(make_run: Any) -> None:
    path = make_run()
    save_manifest(path, replace(open_run(path).manifest, processes=11))
    for number, name in enumerate(("trace.json.gz", "trace-r1.json.gz", "trace-r10.json.gz")):
        traced_steps().save(path / name, {**HEADER, "rank": (0, 1, 10)[number]})
    layers = load_run_layers(open_run(path))
    assert layers is not None
    assert [rank.rank for rank in layers.ranks] == [0, 1, 10]
    assert layers.ranks[2].rows["rank"].unique().to_list() == [10]


def test_what_was_worked_out_is_kept_and_comes_back_the_same(make_run: Any) -> None:
    path, trace = make_run(gpu=True), traced_steps()
    add_memory(trace)
    trace.save(path / "trace.json.gz", {**HEADER, "device": "cuda:0"})
    first = load_run_layers(open_run(path))
    heard: list[float] = []
    again = load_run_layers(open_run(path), progress=heard.append)
    assert first is not None and again is not None and not heard
    assert again.advice == first.advice
    for old, new in zip(first.ranks, again.ranks, strict=True):
        assert replace(new, rows=old.rows) == old
        assert new.rows.equals(old.rows)
    # Another trace, or a table that is none, is never taken for this one.
    traced_steps(2).save(path / "trace.json.gz", {**HEADER, "device": "cuda:0"})
    changed = load_run_layers(open_run(path), progress=heard.append)
    assert heard and changed is not None
    (path / "layers.parquet").write_bytes(b"no table")
    assert load_run_layers(open_run(path)) is not None


def test_a_step_with_something_else_in_it_is_left_out(make_run: Any) -> None:
    path = make_run(step_s=1e-6)
    trace = Trace()
    marker = {"ph": "M", "name": "trainload.window", "ts": 0, "pid": 0, "tid": 0}
    trace.events.append({**marker, "args": {"index": 0}})
    trace.mark(0, 0)
    cpu_step(trace, cpu_step(trace, 0, 1, 3) + 9000, 2, 6)  # a validation between the two
    trace.save(path / "trace.json.gz", HEADER)
    layers = load_run_layers(open_run(path))
    assert layers is not None
    assert layers.ranks[0].rows["step"].unique().to_list() == [1]
    assert "1 traced steps are left out" in layers.ranks[0].notes[1]


def test_a_trace_from_elsewhere_is_told_as_traced(tmp_path: Path) -> None:
    trace = Trace()
    trace.host("ProfilerStep#4", 0, 200, category="user_annotation")
    trace.forward("aten::linear", 10, 100, 1)
    trace.node("AddmmBackward0", 110, 180, 1)
    layers = collect_trace(trace.save(tmp_path / "trace.json"))
    assert not layers.corrected
    assert layers.step_s == layers.traced_step_s == 200e-9
    assert layers.notes == ("steps are ProfilerStep ranges", "layers are operations")
    assert [node.layer for node in layers.nodes] == ["", "aten::linear"]
    assert layers.parts == pytest.approx(
        {"forward": 90e-9, "backward": 70e-9, "idle: host": 10e-9, "remainder": 30e-9}
    )
    assert layers.cost.budget is None


def test_a_list_of_modules_stands_in_the_tree_though_it_never_runs(tmp_path: Path) -> None:
    trace = Trace()
    trace.host("layer:Net:", 0, 100)
    trace.host("layer:Net:blocks.0.a", 10, 50)
    trace.host("aten::mm", 20, 40)
    nodes = collect_trace(trace.save(tmp_path / "trace.json")).nodes
    assert [(n.layer, n.depth) for n in nodes] == [
        ("", 0), ("blocks", 1), ("blocks.0", 2), ("blocks.0.a", 3),
    ]  # fmt: skip
    assert nodes[1].exclusive_s == 0
    assert nodes[1].inclusive_s == nodes[3].inclusive_s == pytest.approx(40e-9)


def test_a_run_whose_trace_holds_no_whole_step_is_told(tmp_path: Path) -> None:
    trace = traced_steps(1)
    windows = [{**HEADER["windows"][0], "first_step": 5, "last_step": 6}]
    with pytest.raises(TraceError, match="no whole step"):
        collect_trace(trace.save(tmp_path / "trace.json", {**HEADER, "windows": windows}))


def test_the_hosts_gaps_are_named_by_samples_and_kept(make_run: Any) -> None:
    """Every 10 ns of the three steps of 1,000 ns a sample: the script's line 7."""
    host = {
        "index": 0, "period_ns": 10, "taken": 300, "own_s": 1e-6, "first_ns": 0, "note": None,
        "frames": [["script", "train.py", "main", 7]], "stacks": [[0]],
        "samples": [[at, 1, 0] for at in range(300)],
        "marks": [[step, 1000 * step, 1000 * step] for step in range(4)],
    }  # fmt: skip
    path = make_run(step_s=0.05)
    traced_steps().save(path / "trace.json.gz", {**HEADER, "host": [host]})
    layers = load_run_layers(open_run(path))
    assert layers is not None
    (rank,) = layers.ranks
    assert rank.explained_fraction == 1.0
    assert "remainder" not in rank.parts
    assert sum(rank.parts.values()) == pytest.approx(rank.step_s)
    for part in ("python", "idle: host"):
        told = sum(one.time_s for one in rank.host if one.part == part)
        assert told == pytest.approx(rank.parts[part])
    assert {one.place for one in rank.host} == {"train.py:7"}
    assert rank.rows["kind"].is_in(["python"]).sum() == 2  # the header lists two of them
    again = load_run_layers(open_run(path))
    assert again is not None
    assert (again.ranks[0].host, again.ranks[0].sampling) == (rank.host, rank.sampling)
