"""Giving MXNet's operations to layers, from profiles written by hand; no framework is needed."""

import json
from pathlib import Path
from typing import Any

import pytest

from trainload_worker.frameworks.mxnet.profile import (
    LayerNames,
    Node,
    Operation,
    Seen,
    label_profile,
    own_operations,
    read_operations,
)
from trainload_worker.windows.labelled_events import (
    INPUT,
    SYNCHRONISE,
    UNKNOWN,
    UPDATE,
    layer,
    loss,
)

NAMES = LayerNames(["conv", "conv_2", "block.add", "fc"])


def operator(kind: str, start: int, end: int, thread: int = 7) -> list[dict[str, Any]]:
    """An operation as the profiler writes it: begin and end, and both again as a task."""
    event = {"name": kind, "cat": "operator", "tid": thread, "pid": 0}
    return [
        {**event, "ph": phase, "ts": at}
        for phase, at in (("B", start), ("E", end), ("b", start), ("e", end))
    ]


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("conv_fwd_output", "conv"),
        ("conv_2_fwd_backward_0", "conv_2"),
        ("conv_22_fwd", "conv"),
        ("block.add__plus0_output", "block.add"),
        ("convolution_fwd", None),
        ("sum_grad_output", None),
        ("", None),
    ],
)
def test_a_node_s_layer_is_the_longest_name_that_fits(node: str, expected: str | None) -> None:
    assert NAMES.find(node) == expected


def test_an_operation_is_proved_by_its_kind_and_its_time() -> None:
    operations = [
        Operation(0, 10, "Convolution", 0),
        Operation(20, 30, "Convolution", 0),
        Operation(40, 50, "relu", 0),
        Operation(60, 62, "FullyConnected", 0),
        Operation(63, 65, "FullyConnected", 0),
    ]
    nodes = [
        Node(11, "conv_fwd_output", "Convolution", "forward"),
        Node(12, "conv_fwd_second", "Convolution", "forward"),
        Node(31, "conv_2_fwd_output", "Convolution", "forward"),
        # Another kind than the operation that ended, and two operations for one node.
        Node(51, "block.add_output", "elemwise_add", "forward"),
        Node(66, "fc_output", "FullyConnected", "forward"),
    ]
    assert own_operations(operations, nodes, NAMES) == {
        0: layer("conv", "forward"),
        1: layer("conv_2", "forward"),
    }


def test_a_sum_of_gradients_is_of_the_layer_that_takes_it() -> None:
    operations = [Operation(0, 10, "add_n", 0), Operation(20, 30, "_backward_Convolution", 0)]
    nodes = [
        Node(11, "sum_grad_output", "add_n", "backward"),
        Node(31, "conv_fwd_backward_0", "_backward_Convolution", "backward"),
    ]
    owner = layer("conv", "backward")
    assert own_operations(operations, nodes, NAMES) == {0: owner, 1: owner}
    assert own_operations(operations[:1], nodes[:1], NAMES) == {}


def test_the_engine_s_own_events_are_no_work() -> None:
    events = [
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "cpu/0"}},
        *operator("WaitForVar", 1, 900),
        *operator("DeleteVariable", 2, 3),
        *operator("relu", 5, 6, thread=99),
        *operator("tanh", 3, 4),
        {"ph": "E", "name": "lost", "cat": "operator", "ts": 4, "tid": 7},
    ]
    assert read_operations(events) == [Operation(3, 4, "tanh", 1), Operation(5, 6, "relu", 0)]


def one_step(path: Path) -> Seen:
    events = [
        *operator("Cast", 1010, 1020),
        *operator("Convolution", 1110, 1150),
        *operator("log_softmax", 1210, 1220),
        *operator("ImperativeBulk", 1310, 1320),
        *operator("_backward_Convolution", 1340, 1380),
        *operator("mystery", 1381, 1385),
        *operator("adam_update", 1410, 1440),
        *operator("_copy", 1510, 1512),
    ]
    # As every profile of a process but the first begins.
    text = json.dumps({"traceEvents": events}).replace("[{", "[\n,\n\n{", 1)
    path.write_text(text)
    phases = "input", "forward", "loss", "backward", "update", "end"
    return Seen(
        path=str(path),
        marks=[(4, 1000.0), (5, 1600.0)],
        phases=[(name, 1000.0 + 100 * at) for at, name in enumerate(phases)],
        nodes=[
            Node(1160, "conv_fwd_output", "Convolution", "forward"),
            Node(1390, "conv_fwd_backward_0", "_backward_Convolution", "backward"),
        ],
    )


def test_a_step_is_labelled_phase_by_phase(tmp_path: Path) -> None:
    window = label_profile(one_step(tmp_path / "profile.json"), NAMES)
    window.save(str(tmp_path / "window.json"))
    events = json.loads((tmp_path / "window.json").read_text())["traceEvents"]
    marks = [(e["name"], e["ts"]) for e in events if e["name"].startswith("trainload.step")]
    assert marks == [("trainload.step:4", 0.0), ("trainload.step:5", 600.0)]
    assert {e["name"]: e["args"] for e in events if e["cat"] == "trainload_op"} == {
        "Cast": INPUT,
        "Convolution": layer("conv", "forward"),
        "log_softmax": loss("forward"),
        "ImperativeBulk": loss("backward"),
        "_backward_Convolution": layer("conv", "backward"),
        "mystery": UNKNOWN,
        "adam_update": UPDATE,
        "_copy": UNKNOWN,
    }
    ranges = [
        (e["ts"], e["ts"] + e["dur"], e["args"]) for e in events if e["cat"] == "trainload_range"
    ]
    assert ranges == [
        (0, 100, INPUT),
        (100, 110, layer("conv", "forward")),
        (150, 200, SYNCHRONISE),
        (200, 300, loss("forward")),
        (300, 340, loss("backward")),
        (380, 400, SYNCHRONISE),
        (400, 500, UPDATE),
        (500, 600, SYNCHRONISE),
    ]


def test_a_profile_that_breaks_off_is_an_error_for_whoever_labels(tmp_path: Path) -> None:
    seen = one_step(tmp_path / "profile.json")
    Path(seen.path).write_text('{"traceEvents": [')
    with pytest.raises(ValueError, match="Expecting value"):
        label_profile(seen, NAMES)
