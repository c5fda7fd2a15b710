"""Layers of a JAX training, in its own environment: the windows of a whole run."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from framework_runs import chain, run_in
from worker_specs import graph_document

from trainload.analyse.attribution import collect_trace

pytestmark = pytest.mark.framework("jax")

WIDTH, TIMES = 256, 4


def linear(name: str, units: int) -> tuple[str, dict[str, Any]]:
    return "linear", {"name": name, "units": units}


def twins() -> Any:
    """Layers alike one after another, and two among them of four times the work."""
    return chain(
        (75,),
        linear("stem", WIDTH),
        ("tanh", {"name": "stem_tanh"}),
        linear("twins.first", WIDTH),
        ("tanh", {"name": "twins.tanh"}),
        linear("heavy.up", TIMES * WIDTH),
        ("relu", {"name": "heavy.relu"}),
        linear("heavy.down", WIDTH),
        ("dropout", {"name": "drop", "rate": 0.1}),
        linear("twins.second", WIDTH),
        linear("output", 10),
    )


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Folder, events and windows of a whole run."""
    folder = tmp_path_factory.mktemp("jax")
    layers = {"budget": 0.9, "folder": str(folder), "file_form": "window-{index}.json"}
    status, output, events = run_in(
        "jax",
        folder,
        graph=graph_document(twins()),
        layers=layers,
        training={"epochs": 12, "batch_size": 120},
        setting={"cores": None, "threads": 2, "accelerators": []},
    )
    assert status == 0, output
    names = [event["file"] for event in events if event["kind"] == "window"]
    assert sorted(path.name for path in folder.iterdir()) == sorted(["events.jsonl", *names])
    windows = [json.loads((folder / name).read_text())["traceEvents"] for name in names]
    return folder, events, windows


def operations(traced: Any) -> list[dict[str, Any]]:
    return [event for window in traced[2] for event in window if event["cat"] == "trainload_op"]


def parts(event: dict[str, Any]) -> list[Any]:
    """Layer, phase and weight of all layers an operation belongs to."""
    owner = event["args"]
    if "shares" in owner:
        shares: list[Any] = owner["shares"]
        return shares
    return [[owner["layer"], owner["phase"], 1.0]] if "layer" in owner else []


def test_a_run_leaves_windows_with_the_graph_s_layers(traced: Any) -> None:
    _, events, windows = traced
    assert len(windows) >= 3 and not [event for event in events if event["kind"] == "layers"]
    table = next(event for event in events if event["kind"] == "modules")["modules"]
    assert all(event["args"] for event in operations(traced)), "an operation that nobody owns"
    phases: dict[str, set[str]] = {}
    for event in operations(traced):
        for name, phase, _ in parts(event):
            phases.setdefault(name, set()).add(phase)
    assert set(phases) == {row["layer"] for row in table}
    every = {"forward", "backward", "update"}
    assert all(phases[row["layer"]] == every for row in table if row["parameters"])
    assert phases["stem_tanh"] == {"forward", "backward"}
    kinds = {event["args"].get("kind") for event in operations(traced)}
    assert {"loss", "update"} <= kinds
    fused = [event["args"]["shares"] for event in operations(traced) if "shares" in event["args"]]
    assert any({name for name, _, _ in shares} == {"stem", "stem_tanh"} for shares in fused)


def test_the_explained_share_is_high(traced: Any) -> None:
    folder, events, _ = traced
    for event in events:
        if event["kind"] == "window":
            found = collect_trace(Path(folder) / event["file"])
            assert found.explained_fraction > 0.85, found.parts
            assert {"forward", "backward", "update", "input", "loss"} <= set(found.parts)


def test_a_layer_of_four_times_the_work_takes_about_four_times_as_long(traced: Any) -> None:
    shortest: dict[tuple[str, str], float] = {}
    for window in traced[2]:
        ends = sorted(e["ts"] for e in window if e["name"].startswith("trainload.step:"))
        for begin, end in pairwise(ends):
            spent: dict[tuple[str, str], float] = {}
            for event in window:
                if event["cat"] == "trainload_op" and begin <= event["ts"] < end:
                    for name, phase, share in parts(event):
                        key = name, phase
                        spent[key] = spent.get(key, 0.0) + share * event["dur"]
            for key, time_us in spent.items():
                # A busy machine makes any of them longer, and none shorter.
                shortest[key] = min(time_us, shortest.get(key, time_us))
    for phase in ("forward", "backward"):
        heavy = shortest["heavy.up", phase] + shortest["heavy.down", phase]
        light = shortest["twins.first", phase] + shortest["twins.second", phase]
        assert TIMES / 1.8 < heavy / light < TIMES * 1.8, shortest
