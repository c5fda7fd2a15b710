"""Running small graphs and whole trainings in each framework's own environment."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from worker_specs import (
    SOURCE_FOLDER,
    all_steps,
    graph_document,
    load_events,
    make_graph,
    make_spec,
)

from trainload.run import find_environment
from trainload.run.workers.processes import worker_command
from trainload.workload import LayerGraph, build_model, parse_options
from trainload.workload.graph.layers import LayerSpec, build_graph

OTHERS = ("tensorflow", "jax", "mxnet")
_SCRIPT = Path(__file__).with_name("parity_run.py")


def interpreter(framework: str) -> str:
    """The framework's interpreter; skips the test where there is none."""
    found = find_environment(framework)
    if found.problem is not None or found.python is None:
        pytest.skip(f"{found.problem}; for these tests: make environments")
    return found.python


def model(name: str, **words: Any) -> LayerGraph:
    """A graph of the zoo with these options."""
    return build_model(name, parse_options(name, {key: str(value) for key, value in words.items()}))


def chain(
    shape: tuple[int, ...], *layers: tuple[str, dict[str, Any]], dtype: str = "float32"
) -> Any:
    """A graph of layers one after another; attributes may give `name` and `inputs` too."""
    specs = [
        LayerSpec(name="input", kind="input", attributes={"shape": list(shape), "dtype": dtype})
    ]
    for number, (kind, given) in enumerate(layers):
        attributes = dict(given)
        name = attributes.pop("name", f"block{number}.{kind}")
        inputs = attributes.pop("inputs", (specs[-1].name,))
        specs.append(LayerSpec(name=name, kind=kind, inputs=tuple(inputs), attributes=attributes))
    return build_graph("small", specs)


def case(graph: Any, rows: int = 8, steps: int = 5, **optimizer: Any) -> dict[str, Any]:
    """One case for `parity_run.py`; momentum and weight decay are on unless told."""
    chosen = {"name": "sgd", "learning_rate": 0.01, "weight_decay": 1e-4, "momentum": 0.9}
    spec = make_spec(
        Path("nowhere"),
        graph=graph_document(graph),
        training={"optimizer": {**chosen, **optimizer}},
        seeds={"weights": 3},
        setting={"cores": None, "threads": 2, "accelerators": []},
    )
    return {"spec": spec, "rows": rows, "steps": steps}


def run_cases(framework: str, cases: dict[str, Any], folder: Path) -> Any:
    """Logits and losses of all cases by `name/what`, from the framework's own interpreter."""
    numpy = pytest.importorskip("numpy")
    python = sys.executable if framework == "torch" else interpreter(framework)
    out = folder / f"{framework}.npz"
    document = {
        "worker": str(SOURCE_FOLDER),
        "framework": framework,
        "out": str(out),
        "cases": cases,
    }
    done = subprocess.run(
        [python, str(_SCRIPT)],
        input=json.dumps(document),
        capture_output=True,
        text=True,
        timeout=280,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    with numpy.load(out) as results:
        return dict(results)


def run_in(framework: str, folder: Path, **changes: Any) -> tuple[int, str, list[dict[str, Any]]]:
    """Status, output and events of a whole run, started as the driver starts it."""
    document = make_spec(folder, framework, **changes)
    done = subprocess.run(
        worker_command(interpreter(framework)),
        input=json.dumps(document).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=200,
    )
    return done.returncode, done.stdout.decode("utf-8", "replace"), load_events(document)


def check_learning(framework: str, folder: Path) -> dict[str, Any]:
    """Trains the perceptron, checks what every framework must do, and gives the setting event."""
    graph = make_graph(units=(64, 64), dropout=0.1)
    status, output, events = run_in(framework, folder, graph=graph, training={"epochs": 25})
    assert status == 0, output
    by_kind = {event["kind"]: event for event in events}
    assert by_kind["hello"]["framework"] == framework and by_kind["hello"]["framework_version"]
    assert by_kind["end"]["outcome"] == "completed"
    assert by_kind["model"]["parameters"] == 75 * 64 + 64 + 64 * 64 + 64 + 64 * 10 + 10
    names = [layer["name"] for layer in by_kind["model"]["layers"]]
    assert names == [layer["name"] for layer in graph["layers"]]
    ends, losses = all_steps(events)
    assert ends == sorted(ends) and len(losses) == by_kind["data"]["total_steps"]
    known = [loss for loss in losses if loss is not None]
    assert len(known) == len(losses) and sum(known[-5:]) < 0.7 * sum(known[:5])
    scores = by_kind["epoch"]["validation"]
    assert scores["accuracy"] > 0.15 and scores["loss"] < known[0]
    obtained: dict[str, Any] = by_kind["setting"]["obtained"]
    assert obtained["threads"] == 1 and obtained["device"] == "cpu"
    return obtained


def check_refusals(framework: str, folder: Path) -> None:
    """What the framework cannot do is said in one line."""
    (folder / "a").mkdir()
    status, _, events = run_in(framework, folder / "a", training={"precision": "bf16"})
    assert (
        status == 1 and events[-1]["reason"] == f"{framework} trains in float32 here, not in bf16"
    )
    (folder / "b").mkdir()
    setting = {"cores": None, "threads": 1, "accelerators": ["GPU-none"]}
    status, _, events = run_in(framework, folder / "b", setting=setting)
    assert status == 1 and "finds none; choose a setting without it" in events[-1]["reason"]
