"""Layers of a training with MXNet, in its own environment: named as the graph, proved by weight."""

import json
from pathlib import Path
from typing import Any

import pytest
from framework_runs import chain, model, run_in
from worker_specs import graph_document

from trainload.analyse.attribution.events import Window
from trainload.analyse.attribution.labelled import partition_labelled
from trainload.analyse.attribution.partition import REMAINDER
from trainload.analyse.attribution.steps import find_steps

pytestmark = pytest.mark.framework("mxnet")

KERNELS = {"light1": 1, "heavy": 7, "light2": 1}


def branches() -> Any:
    """Three twins side by side, of which one computes 49 times as much as each other."""
    same = {"channels": 16, "groups": 1, "bias": True, "stride": [1, 1], "dilation": [1, 1]}
    convolutions = [
        ("conv2d", {"name": name, "inputs": ("input",), "kernel": [size, size],
                    "padding": [size // 2, size // 2], **same})
        for name, size in KERNELS.items()
    ]  # fmt: skip
    return chain(
        (16, 32, 32),
        *convolutions,
        ("concat", {"name": "join", "inputs": tuple(KERNELS)}),
        ("relu", {"name": "act"}),
        ("adaptive_avg_pool2d", {"name": "pool", "size": [1, 1]}),
        ("flatten", {"name": "flat"}),
        ("linear", {"name": "output", "units": 4}),
    )


def traced_run(folder: Path, graph: Any, shape: list[int], classes: int, **more: Any) -> Any:
    """The window events of a run and the labelled events of each window."""
    data = {
        "kind": "synthetic", "form": "images", "shape": shape, "rows": 160, "classes": classes,
        "vocabulary": None, "validation_fraction": 0.2,
    }  # fmt: skip
    layers = {"budget": 0.5, "folder": str(folder), "file_form": "window-{index}.json"}
    status, output, events = run_in(
        "mxnet", folder, graph=graph_document(graph), data=data, layers=layers, **more
    )
    assert status == 0, output
    assert not [event for event in events if event["kind"] == "layers"]
    windows = [event for event in events if event["kind"] == "window"]
    assert windows
    return events, [
        json.loads((folder / window["file"]).read_text())["traceEvents"] for window in windows
    ]


def times(events: list[Any]) -> dict[tuple[str, str], list[float]]:
    """Microseconds of each operation by layer and phase."""
    found: dict[tuple[str, str], list[float]] = {}
    for event in events:
        owner = event.get("args", {})
        if event["cat"] == "trainload_op" and "layer" in owner:
            found.setdefault((owner["layer"], owner["phase"]), []).append(event["dur"])
    return found


def explained(events: list[Any]) -> list[float]:
    """The share of each step in a window that is somebody's."""
    window = Window(0)
    for event in json.loads(json.dumps(events), parse_float=str):
        window.add(event)
    assert not window.damaged
    found = partition_labelled(window, find_steps(window)[1], [])
    return [1 - parts.parts.get(REMAINDER, 0) / parts.length_ns for parts in found.steps]


def test_a_heavy_layer_among_twins_shows(tmp_path: Path) -> None:
    graph = branches()
    # On busy cores the first window is dear, and the second waits for its budget.
    training = {"batch_size": 8, "epochs": 20, "max_steps": 320}
    events, windows = traced_run(tmp_path, graph, [16, 32, 32], 4, training=training)
    assert len(windows) >= 2, "a later profile of a process reads as the first"
    found = times([event for window in windows for event in window])
    named = {layer.name for layer in graph.layers} - {"input"}
    assert {name for name, phase in found if phase == "forward"} >= named - {"flat"}
    for phase in ("forward", "backward"):
        for twin in ("light1", "light2"):
            heavy, light = found["heavy", phase], found[twin, phase]
            assert len(heavy) == len(light)
            # Other programs lengthen some of them: the shortest tell the work.
            assert min(heavy) > 4 * min(light), phase
    # Validation and the steps' ends are no part of it.
    phases = [event["name"] for event in events if event["kind"] == "phase"]
    assert phases[-2:] == ["layers", "layers"]


def test_nearly_all_of_a_step_is_explained(tmp_path: Path) -> None:
    graph = model("lenet5")
    _, windows = traced_run(
        tmp_path, graph, [1, 32, 32], 10, training={"batch_size": 32, "epochs": 5, "max_steps": 16}
    )
    (window,) = windows
    # The reading by which a step's end is seen.
    assert {event["name"] for event in window if event.get("args") == {}} == {"slice"}
    assert min(explained(window)) >= 0.85
    kinds = {event["args"].get("kind") for event in window if "args" in event}
    assert kinds >= {"input", "loss", "update", "synchronise"}
    layers = {name for name, _ in times(window)}
    assert layers == {layer.name for layer in graph.layers} - {"input"}
