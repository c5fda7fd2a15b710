"""Specifications for the worker's tests, and the running of one in a child process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from trainload.checked import to_json
from trainload.workload import LayerGraph, Workload

SOURCE_FOLDER = Path(__file__).resolve().parents[2] / "src"

STUDY_COUNTS = {
    "BL": 10236,
    "FL": 9100,
    "FLAG": 7200,
    "IC": 6900,
    "MAL": 8800,
    "NONE": 23336,
    "OAFL": 6100,
    "OAHS": 8500,
    "PL": 10964,
    "VSIT": 10000,
}


def small_counts(divisor: int = 100) -> dict[str, int]:
    return {name: count // divisor for name, count in STUDY_COUNTS.items()}


def make_graph(
    features: int = 75,
    units: tuple[int, ...] = (16,),
    classes: int = 10,
    activation: str = "leaky_relu",
    dropout: float | None = None,
) -> dict[str, Any]:
    layers: list[dict[str, Any]] = []

    def add(name: str, kind: str, width: int, **attributes: Any) -> None:
        inputs = [layers[-1]["name"]] if layers else []
        layers.append(
            {
                "name": name,
                "kind": kind,
                "inputs": inputs,
                "attributes": attributes,
                "output_shape": [width],
            }
        )

    add("input", "input", features, shape=[features])
    for number, width in enumerate(units, 1):
        add(f"hidden{number}.linear", "linear", width, units=width, bias=True)
        add(f"hidden{number}.activation", activation, width)
        if dropout is not None:
            add(f"hidden{number}.dropout", "dropout", width, rate=dropout)
    add("output", "linear", classes, units=classes, bias=True)
    return {"format": 1, "name": "mlp", "layers": layers, "output": "output"}


def make_spec(folder: Path, framework: str = "fake", **changes: Any) -> dict[str, Any]:
    """A small run; `changes` replace top-level fields, those of `training` and `seeds` singly."""
    document: dict[str, Any] = {
        "format": 2,
        "task": "train",
        "events_path": str(folder / "events.jsonl"),
        "framework": framework,
        "graph": make_graph(),
        "data": {
            "kind": "keypoints",
            "class_counts": small_counts(),
            "features": 75,
            "validation_fraction": 0.2,
        },
        "training": {
            "batch_size": 64,
            "epochs": 2,
            "max_steps": None,
            "optimizer": {
                "name": "adam",
                "learning_rate": 1e-3,
                "weight_decay": 1e-4,
                "momentum": 0.9,
            },
            "precision": "float32",
        },
        "seeds": {"data_order": 0, "weights": 0, "split": 0, "data": 0},
        "setting": {"cores": None, "threads": 1, "accelerators": []},
        "parent_pid": os.getpid(),
        "fake": {"step_s": 0.001},
    }
    for name, value in changes.items():
        if name in ("training", "seeds", "fake"):
            document[name].update(value)
        else:
            document[name] = value
    return document


def graph_document(graph: LayerGraph) -> dict[str, Any]:
    """A graph as a specification holds it."""
    document: dict[str, Any] = to_json(graph.to_spec())
    return document


def parts_of(workload: Workload) -> dict[str, Any]:
    """What of a specification describes a built-in model's workload."""
    parts = {"data": workload.data, "training": workload.training, "seeds": workload.seeds}
    return {"graph": graph_document(workload.graph), **to_json(parts)}


def spawn_worker(document: dict[str, Any], **options: Any) -> subprocess.Popen[bytes]:
    """Starts a worker and hands it the specification."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE_FOLDER)}
    process = subprocess.Popen(
        [sys.executable, "-m", "trainload_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        **options,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(document).encode())
    process.stdin.close()
    process.stdin = None
    return process


def run_worker(document: dict[str, Any], **options: Any) -> tuple[int, bytes]:
    """Exit status and output of one whole run."""
    process = spawn_worker(document, **options)
    output, _ = process.communicate(timeout=60)
    return process.returncode, output


def load_events(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The events a run left; fails on a line that is not strict JSON."""
    text = Path(document["events_path"]).read_text(encoding="utf-8")
    return [json.loads(line, parse_constant=_refuse) for line in text.splitlines()]


def all_steps(events: list[dict[str, Any]]) -> tuple[list[float], list[float | None]]:
    """Ends and losses of all steps, in order."""
    lines = [event for event in events if event["kind"] == "steps"]
    ends = [end for line in lines for end in line["end_s"]]
    losses = [loss for line in lines for loss in line["loss"]]
    return ends, losses


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")
