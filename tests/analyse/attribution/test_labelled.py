"""Windows whose events say whose they are: every instant given away once, by lane and by share."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kineto import HEADER
from typer.testing import CliRunner

from trainload.analyse.attribution import load_run_layers
from trainload.analyse.attribution.events import Window
from trainload.analyse.attribution.host import WAY_IN_NS
from trainload.analyse.attribution.labelled import partition_labelled
from trainload.analyse.attribution.labels import parse_owners
from trainload.analyse.attribution.partition import Part, StepParts
from trainload.analyse.attribution.steps import HostStep, find_steps
from trainload.cli.app import app
from trainload.record import open_run
from trainload_worker.windows.labelled_events import (
    COPY,
    INPUT,
    RANGE,
    SYNCHRONISE,
    UNKNOWN,
    UPDATE,
    LabelledWindow,
    layer,
    loss,
    share,
)

MODULES = HEADER["modules"]
A_FORWARD = Part("layer", "Net", "a", "forward")
B_FORWARD = Part("layer", "Net", "b", "forward")


def read(window: LabelledWindow, folder: Path) -> Window:
    """The window as a trace's reader sees it: numbers with a point are text."""
    path = folder / "window.json"
    assert window.save(str(path)) == path.stat().st_size
    found = Window(0)
    for event in json.loads(path.read_text(), parse_float=str)["traceEvents"]:
        found.add(event)
    return found


def parts_of(window: LabelledWindow, folder: Path, end_ns: int = 1_000_000) -> StepParts:
    step = HostStep(step=1, begin_ns=0, end_ns=end_ns)
    found = partition_labelled(read(window, folder), [step], MODULES)
    (parts,) = found.steps
    assert sum(parts.parts.values()) == end_ns
    return parts


def test_an_instant_is_the_innermost_operation_s_shared_over_busy_lanes(tmp_path: Path) -> None:
    window = LabelledWindow()
    window.add("outer", 0, 100, 0, layer("a", "forward"))
    window.add("inner", 20, 60, 0, layer("b", "forward"))
    window.add("other", 50, 100, 1, COPY)
    parts = parts_of(window, tmp_path, 100_000)
    # b alone 20..50, b and the copy 50..60, a and the copy 60..100.
    assert parts.parts == {A_FORWARD: 40_000, B_FORWARD: 35_000, Part("copy"): 25_000}
    assert parts.busy_ns == 100_000
    assert parts.calls == {A_FORWARD: 1, B_FORWARD: 1, Part("copy"): 1}


def test_a_fused_operation_is_shared_by_weight_and_told(tmp_path: Path) -> None:
    window = LabelledWindow()
    window.add("fusion", 0, 100.003, 0, share([("a", "forward", 7), ("b", "backward", 3)]))
    parts = parts_of(window, tmp_path, 100_003)
    assert parts.parts == {A_FORWARD: 70_002, Part("layer", "Net", "b", "backward"): 30_001}
    assert parts.fused_ns == 100_003


def test_between_operations_ranges_speak_then_short_ways_then_nobody(tmp_path: Path) -> None:
    way_us = WAY_IN_NS / 1000
    window = LabelledWindow()
    window.add("rows", 0, 100, "host", INPUT, RANGE)
    window.add("host", 100, 200, "host", loss("forward"), RANGE)
    window.add("conv", 200 + way_us, 400, 0, layer("a", "forward"))
    window.add("late", 401 + way_us, 500, 0, layer("b", "forward"))
    window.add("wait", 500, 600, "host", SYNCHRONISE, RANGE)
    window.add("strange", 600, 650, 0, UNKNOWN)
    parts = parts_of(window, tmp_path, 700_000)
    assert parts.parts == {
        Part("input"): 100_000,
        Part("idle", None, None, "forward", "host"): 100_000,
        Part("idle", "Net", "a", "forward", "host"): WAY_IN_NS,
        A_FORWARD: 200_000 - WAY_IN_NS,
        Part("remainder"): 1_000 + WAY_IN_NS + 50_000 + 50_000,
        B_FORWARD: 99_000 - WAY_IN_NS,
        Part("idle", cause="synchronise"): 100_000,
    }


def test_of_two_lanes_ranges_the_one_entered_last_speaks(tmp_path: Path) -> None:
    window = LabelledWindow()
    window.add("one", 0, 100, 1, UPDATE, RANGE)
    window.add("two", 40, 80, 2, INPUT, RANGE)
    window.add("inner", 10, 20, 1, layer("a", "forward"), RANGE)
    parts = parts_of(window, tmp_path, 100_000)
    assert parts.parts == {
        Part("idle", None, None, "update", "host"): 50_000,
        Part("idle", "Net", "a", "forward", "host"): 10_000,
        Part("input"): 40_000,
    }


owners = st.sampled_from(
    [
        layer("a", "forward"), layer("b", "backward"), layer("new", "update"), UPDATE, COPY, INPUT,
        UNKNOWN, SYNCHRONISE, loss("backward"),
        share([("a", "forward", 1), ("b", "forward", 2), ("a", "backward", 4)]),
    ]
)  # fmt: skip
times = st.integers(-50, 1200)


@given(
    events=st.lists(
        st.tuples(times, st.integers(0, 400), st.integers(0, 3), owners, st.booleans()),
        max_size=25,
    ),
    marks=st.lists(st.integers(0, 1000), min_size=2, max_size=5, unique=True).map(sorted),
)
def test_parts_sum_to_each_step_exactly(events: Any, marks: list[int]) -> None:
    window = Window(0)
    for number, at in enumerate(marks):
        window.add({"ph": "X", "cat": "user_annotation", "name": f"trainload.step:{number}",
                    "ts": f"{at}.0", "dur": 0, "pid": 0, "tid": 0})  # fmt: skip
    for start, length, lane, owner, is_range in events:
        arguments = json.loads(json.dumps(owner), parse_float=str)
        window.add({"ph": "X", "cat": RANGE if is_range else "trainload_op", "name": "x",
                    "ts": f"{start}.007", "dur": f"{length}.5", "pid": 0, "tid": lane,
                    "args": arguments})  # fmt: skip
    assert window.damaged == 0
    source, steps = find_steps(window)
    assert source == "marks"
    found = partition_labelled(window, steps, MODULES)
    assert len(found.steps) == len(marks) - 1
    for parts, begin, end in zip(found.steps, marks, marks[1:], strict=False):
        assert sum(parts.parts.values()) == (end - begin) * 1000
        assert min(parts.parts.values()) >= 0
        assert 0 <= parts.fused_ns <= parts.busy_ns <= parts.length_ns


@pytest.mark.parametrize(
    "arguments",
    [
        None, [], "layer", 5, {"layer": "a"}, {"layer": 5, "phase": "forward"},
        {"layer": "a", "phase": "sideways"}, {"layer": "a", "phase": ["forward"]},
        {"kind": "dream"}, {"kind": ["loss"]}, {"kind": "loss", "phase": "update?"},
        {"shares": []}, {"shares": {}}, {"shares": [["a", "forward"]]},
        {"shares": [["a", "forward", "0.4"], ["b", "forward", "0.4"]]},
        {"shares": [["a", "forward", "1.5"], ["b", "forward", "-0.5"]]},
        {"shares": [["a", "forward", None]]}, {"shares": [["a", "forward", True]]},
        {"shares": [["a", "forward", "nan"]]}, {"shares": [[{}, "forward", 1]]},
        {"shares": 7},
    ],
)  # fmt: skip
def test_labels_of_no_form_are_damage_and_nothing_worse(arguments: Any) -> None:
    window = Window(0)
    event = {"ph": "X", "cat": "trainload_op", "name": "x", "ts": 1, "dur": 1, "pid": 0, "tid": 0}
    window.add({**event, "args": arguments})
    window.add(event)
    window.add({**event, "args": {}, "dur": -1})
    window.add({**event, "args": {}, "tid": []})
    window.add({**event, "args": {}, "ts": None})
    assert window.damaged == 5
    assert len(window.labelled) == window.events == 0
    with pytest.raises((TypeError, ValueError, KeyError)):
        parse_owners(arguments)


def test_halves_of_characters_in_names_are_replaced() -> None:
    assert parse_owners({"layer": "a\ud800", "phase": "forward"})[0][0] == (
        "layer", None, "a?", "forward",
    )  # fmt: skip


def labelled_run(path: Path) -> Path:
    """A run directory whose trace has three labelled steps, one of them after those to use."""
    window = LabelledWindow()
    window.mark(0, 0)
    window.mark(0, 500)  # a validation before the first step
    for step in (1, 2, 3):
        at = 1000.0 * step - 500
        window.add("rows", at, at + 100, "host", INPUT, RANGE)
        window.add("conv", at + 100, at + 400, 0, layer("a", "forward"))
        window.add(
            "fusion", at + 400, at + 500, 0, share([("a", "backward", 1), ("b", "backward", 3)])
        )
        window.add("loss", at + 500, at + 600, 0, loss("forward"))
        window.add("sgd", at + 600, at + 800, 0, UPDATE)
        window.add("strange", at + 800, at + 1000, 0, UNKNOWN)
        window.mark(step, at + 1000)
    raw = path / "raw.json"
    window.save(str(raw))
    events = json.loads(raw.read_text())["traceEvents"]
    raw.unlink()
    marker = {"ph": "M", "name": "trainload.window", "ts": 0, "pid": 0, "tid": 0}
    document = {
        "trainload": {**HEADER, "notes": []},
        "traceEvents": [
            {**marker, "args": {"index": 0}},
            *events,
            {"cat": "trainload_op", "ph": "X"},
        ],
    }
    with gzip.open(path / "trace.json.gz", "wt") as file:
        json.dump(document, file)
    return path


def test_a_run_of_another_framework_is_explained_like_one_of_torch(make_run: Any) -> None:
    layers = load_run_layers(open_run(labelled_run(make_run(step_s=0.001))))
    assert layers is not None
    (rank,) = layers.ranks
    assert rank.corrected
    assert rank.explained_fraction == pytest.approx(0.8)
    assert rank.traced_step_s == pytest.approx(0.001)
    assert rank.rows["step"].unique(maintain_order=True).to_list() == [1, 2]
    assert rank.parts == pytest.approx(
        {
            "forward": 300e-6, "backward": 100e-6, "update": 200e-6, "loss": 100e-6,
            "input": 100e-6, "remainder": 200e-6,
        }, rel=1e-3,
    )  # fmt: skip
    model, a, b = rank.nodes
    assert [(node.layer, node.depth) for node in rank.nodes] == [("", 0), ("a", 1), ("b", 1)]
    assert (a.forward_s, a.backward_s, a.update_s) == pytest.approx((3e-4, 25e-6, 5e-5), rel=1e-3)
    assert (b.forward_s, b.backward_s, b.update_s) == pytest.approx((0, 75e-6, 15e-5), rel=1e-3)
    assert model.inclusive_s == pytest.approx(6e-4, rel=1e-3)
    assert a.memory is not None
    assert a.memory.parameter_bytes == 40
    assert a.memory.activation_bytes is None
    assert "memory_short" not in {advice.topic for advice in layers.advice}
    assert rank.notes == (
        "10.0% of the traced steps are operations fused from several layers: each is shared out "
        "over its layers by their work",
        "1 damaged events are left out",
    )


def test_show_and_report_tell_of_it(make_run: Any, tmp_path: Path) -> None:
    path = labelled_run(make_run(step_s=0.001))
    runner = CliRunner()
    shown = runner.invoke(app, ["show", str(path), "--layers", "--top", "10"])
    assert shown.exit_code == 0, shown.output
    assert "80.0 % explained" in shown.output
    assert "fused from several layers" in " ".join(shown.output.split())
    tables, page = tmp_path / "tables", tmp_path / "report.html"
    made = runner.invoke(app, ["report", str(path), "--csv", str(tables), "--html", str(page)])
    assert made.exit_code == 0, made.output
    (table,) = [file for file in tables.rglob("*.csv") if "layer" in file.name]
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["layer"] for row in rows} >= {"a", "b"}
    assert page.stat().st_size > 10_000
