"""Sound run directories that mutations begin from: sealed and not, traced and not, with two ranks.

All are made from the golden runs; nothing is trained.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl

from chaos_parts.study_folders import NAME as STUDY_BASE
from chaos_parts.study_folders import make_study
from trainload.api.loading import load
from trainload.record import SAMPLE_HEAD

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
OLD_S = 1_700_000_000
"""When every file was last changed, so that a reader need not wait for a worker's last lines."""
_METERED = (
    "host_cpu_load_fraction", "host_ram_used_bytes", "cgroup_cpu_throttled_s", "run_cpu_s",
    "run_rss_bytes",
)  # fmt: skip
_NODE = "autograd::engine::evaluate_function: "


def make_bases(folder: Path) -> list[Path]:
    """The directories, one beside the other under `folder`."""
    sealed, lines = folder / "sealed", folder / "lines"
    shutil.copytree(GOLDEN / "format-1-sealed", sealed)
    shutil.copytree(GOLDEN / "format-1-lines", lines)
    for path in (sealed, lines):
        _slim(path)
        (path / "worker.log").write_text("epoch 1 loss 0.5\nepoch 2 loss 0.4\n")
    traced = folder / "traced"
    shutil.copytree(lines, traced)
    _add_windows(traced)
    abandoned = folder / "abandoned"
    shutil.copytree(traced, abandoned)
    _change(abandoned, outcome=None, outcome_reason=None, training_completed=None)
    closed = folder / "closed"
    shutil.copytree(traced, closed)
    run = load(closed)
    assert run.attribution is not None and run.summary.steps == 26, "the base is sound"
    (closed / "estimate.json").write_text(
        json.dumps({"format": 1, "model": "mlp", "memory": {"allocated_bytes": 1000}})
    )
    study = folder / STUDY_BASE
    make_study(study, sealed)
    return [sealed, lines, traced, abandoned, closed, study]


def _slim(path: Path) -> None:
    """Fewer metered columns, some of each sort: every one costs each of thousands of reads."""
    document = json.loads((path / "run.json").read_text())
    for meter in document["meters"]:
        meter["quantities"] = [q for q in meter["quantities"] if q["column"] in _METERED]
    document["meters"] = [meter for meter in document["meters"] if meter["quantities"]]
    (path / "run.json").write_text(json.dumps(document, indent=1))
    table, rows = path / "samples.parquet", path / "samples.jsonl"
    if table.exists():
        frame = pl.read_parquet(table)
        frame.select(c for c in frame.columns if c in (*SAMPLE_HEAD, *_METERED)).write_parquet(
            table
        )
    if rows.exists():
        head, *rest = map(json.loads, rows.read_text().splitlines())
        places = [at for at, c in enumerate(head["columns"]) if c in (*SAMPLE_HEAD, *_METERED)]
        head["columns"] = [head["columns"][at] for at in places]
        slim = [head, *([row[at] for at in places] for row in rest if isinstance(row, list))]
        rows.write_text("".join(json.dumps(one) + "\n" for one in slim))


def _change(path: Path, **values: Any) -> None:
    document = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps({**document, **values}, indent=1))


def _add_windows(path: Path) -> None:
    _change(path, layers={"budget": 0.03}, processes=2, format_minor=2)
    lines = (path / "events.jsonl").read_text().splitlines()
    modules = [
        {
            "root": "Net", "layer": name, "class": kind, "parameters": count,
            "parameter_bytes": 4 * count, "gradient_bytes": 4 * count, "optimizer_bytes": 0,
        }
        for name, kind, count in (("", "Net", 0), ("a", "Linear", 10), ("b", "Linear", 30))
    ]  # fmt: skip
    lines.insert(-1, json.dumps({"kind": "modules", "modules": modules, "compiled": False}))
    for index in range(3):
        name = f"window-{index:04d}.json"
        lines.insert(-1, json.dumps(_window_event(index, name)))
        (path / name).write_text(_window_text(index))
    (path / "events.jsonl").write_text("\n".join(lines) + "\n")
    other = [line for line in lines if '"kind":"end"' not in line]
    (path / "events-r1.jsonl").write_text(
        "\n".join(other).replace("window-0", "window-r1-0") + "\n"
    )
    for index in range(3):
        (path / f"window-r1-{index:04d}.json").write_text(_window_text(index))
    (path / "window-plan.txt").write_text("10\n")


def _window_event(index: int, name: str) -> dict[str, Any]:
    begin = 5567.3 + 0.01 * index
    return {
        "kind": "window", "index": index, "purpose": "memory" if index == 2 else "time",
        "file": name, "device": "cpu", "first_step": 3 * index + 1, "last_step": 3 * index + 2,
        "disturbed": [3 * index, 3 * index + 3], "begin_s": begin, "end_s": begin + 0.005,
        "cost_s": 0.001,
    }  # fmt: skip


def _window_text(index: int) -> str:
    """A window as torch's profiler saves one: two steps of a model of two layers."""
    events: list[dict[str, Any]] = []

    def add(name: str, start: int, end: int, category: str = "cpu_op", **arguments: Any) -> None:
        event = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 11}
        times = {"ts": start / 1000, "dur": (end - start) / 1000}
        events.append({**event, **times, "args": arguments})

    add(f"trainload.step:{3 * index}", 0, 1)
    for turn in range(3):
        at, one = 1000 * turn, 3 * turn
        add("enumerate(DataLoader)#_Iter.__next__", at, at + 100, "user_annotation")
        add("layer:Net:", at + 110, at + 400)
        add("layer:Net:a", at + 120, at + 200)
        add("aten::linear", at + 130, at + 200, **{"Sequence number": one, "Fwd thread id": 0})
        add("layer:Net:b", at + 210, at + 390)
        add("aten::linear", at + 220, at + 380, **{"Sequence number": one + 1, "Fwd thread id": 0})
        add("trainload.backward", at + 460, at + 860)
        for sequence, start in ((one + 1, 510), (one, 720)):
            numbers = {"Sequence number": sequence, "Fwd thread id": 1}
            add(_NODE + "AddmmBackward0", at + start, at + start + 100, **numbers)
        add("Optimizer.step#SGD.step", at + 880, at + 990, "user_annotation")
        add(f"trainload.step:{3 * index + turn + 1}", at + 1000, at + 1001)
        events.append(
            {
                "ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 11,
                "ts": (at + 140) / 1000,
                "args": {"Addr": turn, "Bytes": 100, "Device Type": 0, "Total Allocated": 1100},
            }
        )  # fmt: skip
    body = ",\n".join(json.dumps(event) for event in events)
    return f'{{"schemaVersion": 1, "traceEvents": [\n{body}\n],"traceName": "w.json"}}'
