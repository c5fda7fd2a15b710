"""Layers of a TensorFlow training: whose each operation is, and windows of a whole run.

The rules need no framework: a graph is told here by its operations' names, kinds and inputs.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from framework_runs import run_in
from worker_specs import graph_document

from trainload.workload.graph.layers import LayerSpec, build_graph
from trainload_worker.frameworks.tensorflow.owners import Owners, flop_per_row


@dataclass
class Shape:
    sides: list[int | None]

    @property
    def rank(self) -> int:
        return len(self.sides)

    def as_list(self) -> list[int | None]:
        return self.sides

    def __getitem__(self, part: slice) -> "Shape":
        return Shape(self.sides[part])


@dataclass
class Tensor:
    op: "Operation"
    shape: Shape
    users: list["Operation"] = field(default_factory=list)

    def consumers(self) -> list["Operation"]:
        return self.users


class Operation:
    def __init__(self, name: str, kind: str, inputs: list["Operation"], sides: list[Any]) -> None:
        self.name, self.type = name, kind
        self.inputs = [one.outputs[0] for one in inputs]
        self.outputs = [Tensor(self, Shape(sides))]
        for tensor in self.inputs:
            tensor.users.append(self)

    def get_attr(self, _name: str) -> bool:
        return False


class Graph:
    """Operations in the order they were made."""

    def __init__(self) -> None:
        self._made: list[Operation] = []

    def add(self, name: str, kind: str, *inputs: Operation, sides: Any = (None, 4)) -> Operation:
        self._made.append(Operation(name, kind, list(inputs), list(sides)))
        return self._made[-1]

    def get_operations(self) -> list[Operation]:
        return self._made


SCOPES = {"net_1/a_1": "a", "net_1/a_1_1": "a_1", "net_1/r_1": "r"}


def find(name: str, kind: str = "Mul", graph: Graph | None = None, executed: Any = ()) -> Any:
    owners = Owners(graph or Graph(), SCOPES, ["a", "a_1", None])
    return owners.find(name, kind, executed)


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("net_1/a_1/MatMul", {"layer": "a", "phase": "forward"}),
        ("net_1/a_1_1/MatMul", {"layer": "a_1", "phase": "forward"}),
        ("gradient_tape/net_1/a_1/MatMul/MatMul_1", {"layer": "a", "phase": "backward"}),
        ("ConstantFolding/net_1/r_1/mul-folded", {"layer": "r", "phase": "forward"}),
        (
            "gradient_tape/net_1/a_1/while/net_1/a_1/while_grad/body/_7/gradients/AddN_4",
            {"layer": "a", "phase": "backward"},
        ),
        ("net_1/transpose", {"layer": "", "phase": "forward"}),
        ("loss/Mean", {"kind": "loss", "phase": "forward"}),
        ("gradient_tape/loss/truediv", {"kind": "loss", "phase": "backward"}),
        ("prepare/Cast", {"kind": "input"}),
        ("optimizer/variable1/ResourceApplyAdam", {"layer": "a_1", "phase": "update"}),
        ("optimizer/variable0/gradient/Unsorted", {"layer": "a", "phase": "backward"}),
        ("optimizer/variable2/mul", {"kind": "update"}),
        ("optimizer/Sqrt", {"kind": "update"}),
        ("ending/strided_slice", {"kind": "update"}),
        ("elsewhere/mul", {}),
        ("AddN", {}),
    ],
)
def test_a_name_tells_the_layer_and_the_phase(name: str, owner: Any) -> None:
    assert find(name) == owner


def test_a_sum_of_gradients_belongs_to_the_layer_it_feeds() -> None:
    graph = Graph()
    first = graph.add("gradient_tape/net_1/a_1/MatMul", "MatMul")
    second = graph.add("gradient_tape/net_1/a_1_1/MatMul", "MatMul")
    total = graph.add("AddN", "AddN", first, second)
    between = graph.add("AddN_1/reshape", "Reshape", total)
    graph.add("gradient_tape/net_1/r_1/ReluGrad", "ReluGrad", between)
    assert find("AddN", "AddN", graph) == {"layer": "r", "phase": "backward"}
    # A weight that two layers use: the sum goes to the optimizer, and is a gradient still.
    shared = graph.add("AddN_2", "AddN", first, second)
    graph.add("optimizer/variable0/mul", "Mul", shared)
    assert find("AddN_2", "AddN", graph) == {"layer": "a", "phase": "backward"}
    graph.add("AddN_3", "AddN", second)
    assert find("AddN_3", "AddN", graph) == {"layer": "a_1", "phase": "backward"}


def test_a_fused_operation_is_shared_out_by_work() -> None:
    graph = Graph()
    rows = graph.add("inputs", "Placeholder", sides=(None, 8))
    weight = graph.add("net_1/a_1/MatMul/ReadVariableOp", "ReadVariableOp", sides=(8, 4))
    product = graph.add("net_1/a_1/MatMul", "MatMul", rows, weight)
    shifted = graph.add("net_1/a_1/BiasAdd", "BiasAdd", product)
    graph.add("net_1/r_1/Relu", "Relu", shifted)
    fused = find("net_1/r_1/Relu", "_MklNativeFusedMatMul", graph, {"net_1/r_1/Relu"})
    # Eight products and sums for each of four values, four biases, four comparisons.
    assert flop_per_row(product) == 64
    assert fused == {"shares": [["a", "forward", 68 / 72], ["r", "forward", 4 / 72]]}
    within = find("net_1/a_1/BiasAdd", "_FusedMatMul", graph, {"net_1/a_1/BiasAdd"})
    assert within == {"layer": "a", "phase": "forward"}
    # Functions of one value that became one; what ran by itself is no part of them.
    graph.add("net_1/a_1_1/Tanh", "Tanh", graph.add("net_1/r_1/Exp", "Exp", product))
    composed = "net_1/a_1_1/Tanh/unary_ops_composition"
    ran = {"net_1/a_1_1/Tanh", "net_1/a_1/MatMul"}
    both = find(composed, "_UnaryOpsComposition", graph, ran)
    assert both == {"shares": [["a_1", "forward", 0.5], ["r", "forward", 0.5]]}
    # Run by oneDNN, yet one operation alone.
    alone = {"net_1/r_1/Relu", "net_1/a_1/BiasAdd"}
    assert find("net_1/r_1/Relu", "_MklRelu", graph, alone) == {"layer": "r", "phase": "forward"}


def twins(times: int) -> Any:
    """Two layers alike, with names that differ by what TensorFlow appends, and a heavier one."""
    width = 128  # small enough that the heavier one's weights stay in a processor's cache
    layers = [
        LayerSpec(name="input", kind="input", attributes={"shape": [75], "dtype": "float32"}),
        LayerSpec(name="base", kind="linear", inputs=("input",), attributes={"units": width}),
        LayerSpec(name="relu", kind="relu", inputs=("base",), attributes={}),
        *(
            LayerSpec(name=name, kind="linear", inputs=("relu",), attributes={"units": units})
            for name, units in (("twin", width), ("twin_1", width), ("heavy", times * width))
        ),
        LayerSpec(name="concat", kind="concat", inputs=("twin", "twin_1", "heavy"), attributes={}),
        LayerSpec(name="output", kind="linear", inputs=("concat",), attributes={"units": 10}),
    ]
    return build_graph("twins", layers)


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Events, windows and files of a whole run, some of whose windows hold a validation."""
    folder = tmp_path_factory.mktemp("tensorflow")
    layers = {"budget": 0.9, "folder": str(folder), "file_form": "window-{index}.json"}
    status, output, events = run_in(
        "tensorflow",
        folder,
        graph=graph_document(twins(4)),
        layers=layers,
        training={"epochs": 3, "batch_size": 50},
    )
    assert status == 0, output
    names = [event["file"] for event in events if event["kind"] == "window"]
    windows = [json.loads((folder / name).read_text())["traceEvents"] for name in names]
    assert sorted(path.name for path in Path(folder).iterdir()) == ["events.jsonl", *names]
    return events, windows


@pytest.mark.framework("tensorflow")
def test_a_run_leaves_windows_with_the_graph_s_layers(traced: Any) -> None:
    events, windows = traced
    assert len(windows) > 1 and not [event for event in events if event["kind"] == "layers"]
    table = next(event for event in events if event["kind"] == "modules")["modules"]
    operations = [event for event in windows[0] if event["cat"] == "trainload_op"]
    assert all(event["args"] for event in operations), "an operation that nobody owns"
    phases: dict[str, set[str]] = {}
    for event in operations:
        for name, phase, _ in parts(event):
            phases.setdefault(name, set()).add(phase)
    assert set(phases) == {row["layer"] for row in table}
    every = {"forward", "backward", "update"}
    assert all(phases[row["layer"]] == every for row in table if row["parameters"])
    assert phases["concat"] == {"forward", "backward"}
    fused = [event["args"]["shares"] for event in operations if "shares" in event["args"]]
    assert fused and {name for name, _, _ in fused[0]} == {"base", "relu"}


@pytest.mark.framework("tensorflow")
def test_the_steps_are_filled_with_operations_and_ranges(traced: Any) -> None:
    window = traced[1][0]
    ends = sorted(e["ts"] for e in window if e["name"].startswith("trainload.step:"))
    assert len(ends) == 4
    ranges = [event for event in window if event["cat"] == "trainload_range"]
    inputs = [event for event in ranges if event["args"] == {"kind": "input"}]
    assert len(inputs) == 3 and all(ends[0] <= event["ts"] < ends[-1] for event in inputs)
    covered, last = 0.0, ends[0]
    for event in sorted(window, key=lambda event: event["ts"]):
        end = event["ts"] + event["dur"]
        if event["cat"] in ("trainload_op", "trainload_range") and end > last:
            covered += end - max(last, event["ts"])
            last = end
    assert covered > 0.75 * (ends[-1] - ends[0])


@pytest.mark.framework("tensorflow")
def test_a_layer_of_four_times_the_work_takes_about_four_times_as_long(traced: Any) -> None:
    shortest: dict[str, float] = {}
    owners: dict[str, str] = {}
    for event in (event for window in traced[1] for event in window):
        if event["cat"] == "trainload_op":
            for layer, phase, share in parts(event):
                if phase != "update" and share == 1.0:
                    owners[event["name"]] = layer
                    known = shortest.get(event["name"], event["dur"])
                    # A busy machine makes any of them longer, and none shorter.
                    shortest[event["name"]] = min(known, event["dur"])
    spent: dict[str, float] = {}
    for name, layer in owners.items():
        spent[layer] = spent.get(layer, 0.0) + shortest[name]
    ratio = 2 * spent["heavy"] / (spent["twin"] + spent["twin_1"])
    assert 2.0 < ratio < 6.5, spent


def parts(event: dict[str, Any]) -> list[Any]:
    """Layer, phase and weight of all layers an operation belongs to."""
    owner = event["args"]
    if "shares" in owner:
        shares: list[Any] = owner["shares"]
        return shares
    return [[owner["layer"], owner["phase"], 1.0]] if "layer" in owner else []
