"""The worker under the oldest Python that a framework may bring: it loads, reads and answers."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from worker_specs import SOURCE_FOLDER, make_spec

from trainload_worker.protocol.checked import to_json
from trainload_worker.protocol.data import CsvData, ImageData, NpyArray, NpyData, SyntheticData
from trainload_worker.protocol.events import (
    EVENTS,
    Obtained,
    ObtainedAccelerator,
    event_fields,
)
from trainload_worker.protocol.graph import GraphSpec, LayerSpec
from trainload_worker.protocol.measure import Reading
from trainload_worker.protocol.spec import (
    LaunchSpec,
    LayersSpec,
    MeasureSpec,
    RankFiles,
    ScriptSpec,
    SettingSpec,
    TraceSpec,
    dump_spec,
    parse_spec,
)
from trainload_worker.protocol.training import Training

NAME = "python3.8"
PROGRAM = """
import json, pathlib, sys
root = pathlib.Path(sys.argv[1])
for path in sorted((root / "trainload_worker").rglob("*.py")):
    compile(path.read_bytes(), str(path), "exec")
from trainload_worker.errors import SpecError
from trainload_worker.protocol import checked, data, events, graph, outcomes, spec, training
given = json.load(sys.stdin)
refused = 0
for document in given["refused"]:
    try:
        spec.parse_spec(json.dumps(document))
    except SpecError:
        refused += 1
answer = {
    "specs": [json.loads(spec.dump_spec(spec.parse_spec(json.dumps(s)))) for s in given["specs"]],
    "events": [
        checked.to_json(events.event_fields(events.parse_event(line))) for line in given["events"]
    ],
    "refused": refused,
}
json.dump(answer, sys.stdout)
"""

SETTING = SettingSpec(cores=(0, 1), threads=2)
SCRIPT = ScriptSpec(
    "e", "torch", "train.py", SETTING, ("--lr", "1"), layers=LayersSpec(0.03, "f", "w")
)
GRAPH = GraphSpec(
    "g", (LayerSpec("i", "input", attributes={"shape": [3]}, output_shape=(3,)),), "i"
)
TRACE = {"events_path": "e", "framework": "torch", "trace_path": "t", "target": "cuda",
         "iterations": 2, "limit_s": 60.0, "setting": SETTING}  # fmt: skip
DATA = (
    CsvData("t.csv", "label", ("x",), ("a", "b")),
    SyntheticData("images", (3, 8, 8), 50, 3),
    ImageData("folder", "f", (3, 8, 8), "fit", ("a", "b"), False, "cache"),
    NpyData(NpyArray("x.npy", "<f4", (4, 3), 128), None, (3,), 5),
)


def old_python() -> str:
    """A Python 3.8 that runs; the test skips where PATH has none."""
    found = shutil.which(NAME)
    if found is None:
        pytest.skip(f"no {NAME} on PATH")
    said = subprocess.run([found, "-V"], capture_output=True, text=True, check=False)
    if said.returncode or not said.stdout.startswith("Python 3.8."):
        pytest.skip(f"the {NAME} on PATH does not run")
    return found


def sample_event(kind: str) -> dict[str, Any]:
    """One line of that kind with all that it needs."""
    values: dict[str, Any] = {
        "t_s": 1.5, "obtained": Obtained(cores=(0,), accelerators=(ObtainedAccelerator("a", "b"),)),
        "name": "train", "edge": "begin", "epoch": 1, "first_step": 2, "start_s": 1.0,
        "end_s": (2.0, 3.0) if kind == "steps" else 2.0, "loss": (0.5, None), "index": 0,
        "file": "w.json", "begin_s": 1.0, "cost_s": 0.1, "modules": ({"name": "a"},),
        "reason": "so", "by": "backward", "words": "so", "state": "failed", "step": 3, "steps": 4,
        "operations": 5, "key": "k", "calls": (("mm", ()),), "device": "a GPU",
        "operation": "linear", "dtype": "float32", "sizes": {"m": 1}, "flops": 2.0, "bytes": 4.0,
        "seconds": 0.5, "point": 0, "what": "power", "program": "drive-read", "unit": "bytes/s",
        "readings": (Reading({"place": "ram"}, (1.0, 2.0)),), "others_fraction": 0.1,
        "outcome": "completed", "validation": {"loss": 1.0, "top_n": {"5": 0.5}},
    }  # fmt: skip
    cls = EVENTS[kind]
    known = {name: value for name, value in values.items() if name in cls.__dataclass_fields__}
    return to_json(event_fields(cls(**known)))


def sample_specs(folder: Path) -> list[dict[str, Any]]:
    train = make_spec(folder)
    specs = [
        parse_spec(json.dumps(train)),
        SCRIPT,
        LaunchSpec("e", ("python",), (RankFiles("e", "w"),), SETTING, SCRIPT),
        TraceSpec(**TRACE, source=GRAPH, data=DATA[1], training=Training()),
        TraceSpec(**TRACE, source=SCRIPT, capability=(8, 6)),
        MeasureSpec("e", "torch", ("drive-read",), "f", 60.0, SETTING, quick=True),
    ]
    return [json.loads(dump_spec(spec)) for spec in specs] + [
        json.loads(dump_spec(parse_spec(json.dumps({**train, "data": to_json(one)}))))
        for one in DATA
    ]


def test_the_protocol_says_the_same_there(tmp_path: Path) -> None:
    specs = sample_specs(tmp_path)
    events = [sample_event(kind) for kind in sorted(EVENTS)]
    refused = [
        {**specs[0], "format": 1},
        {**specs[0], "epochs": 3},
        {**specs[0], "data": {"kind": "weather"}},
        {**specs[0], "training": {"batch_size": "many"}},
        {**specs[2], "ranks": []},
    ]
    given = {"specs": specs, "events": events, "refused": refused}
    done = subprocess.run(
        [old_python(), "-c", PROGRAM, str(SOURCE_FOLDER)],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={"PYTHONPATH": str(SOURCE_FOLDER), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout)
    assert answer["specs"] == specs
    assert answer["events"] == events
    assert answer["refused"] == len(refused)
