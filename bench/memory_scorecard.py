"""Estimates of training steps beside what they took on an H200: the scorecard of `estimate`.

    .venv/bin/python bench/memory_scorecard.py --work FOLDER --python PYTHON
    .venv/bin/trainload scorecard --truth docs/measurements/raw/memory_scorecard_h200.json

Traces every case of memory_cases.py that has a truth, two at a time, without a GPU, in an
interpreter with torch, torchvision and transformers; traces stay in the work folder for the next
call. `--folder FOLDER` first makes the compact truth (`memory_truth`, row `h200`, of bench/raw.py)
from the folder that memory_truth.py left. `--cases memory_families` judges families outside of all
fits (row `h200-families`).
The libraries should be of the versions the truth was measured with: between transformers 5.17 and
5.22 T5 changed the layout of its position bias, and with it torch's choice of attention kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from raw import RAW, keep, load_figures

ROOT = Path(__file__).resolve().parent.parent
DEVICE = "h200"
CARDS = {
    "memory_cases": (DEVICE, RAW / "memory_scorecard_h200.json"),
    "memory_families": (f"{DEVICE}-families", RAW / "memory_scorecard_families_h200.json"),
}
"""Of each module of cases the kept row of truths, and the card."""
AT_ONCE = 2
STEPS = ("step1", "step2", "step3")
_KINDS = (
    (
        "transformer",
        [
            "bert",
            "gpt",
            "t5_",
            "llama",
            "vit_",
            "swin",
            "transformer",
            "beit",
            "mpnet",
            "bias_",
            "multihead",
        ],
    ),
    ("recurrent", ("lstm", "recurrent", "gru")),
    ("MLP", ("mlp", "fully_connected")),
)


def model_kind(name: str) -> str:
    """What kind of model a case trains."""
    return next((kind for kind, words in _KINDS if any(w in name for w in words)), "CNN")


def read_folder(folder: Path) -> dict[str, Any]:
    """The folder of memory_truth.py in one document; what cannot be used is named in it."""
    cases, left_out = [], []
    software: Mapping[str, Any] = {}
    for path in sorted((folder / "cases").glob("*.json")):
        found = json.loads(path.read_text())
        points = {point["at"]: point for point in found["points"]}
        if found["error"] is not None or not all(step in points for step in STEPS):
            reason = found["error"] or "its three steps were not all measured"
            left_out.append({"name": path.stem, "reason": reason})
            continue
        software = {**software, **{k: v for k, v in found["software"].items() if v is not None}}
        cases.append(_compact(found["case"], points))
    without = sorted(
        path.name.removesuffix(".history.jsonl.gz")
        for path in (folder / "cases").glob("*.history.jsonl.gz")
        if not path.with_name(path.name.replace(".history.jsonl.gz", ".json")).exists()
    )
    left_out += [{"name": name, "reason": "only its history was kept"} for name in without]
    caps = [json.loads(path.read_text()) for path in sorted((folder / "caps").glob("*.json"))]
    return {
        "kind": "memory_truth",
        "format": 1,
        "command": "bench/memory_truth.py, then bench/memory_scorecard.py --folder FOLDER",
        "software": software,
        "cases": cases,
        "caps": [
            {"name": cap["case"]["name"], "cap_bytes": cap["cap_bytes"], "outcome": cap["outcome"]}
            for cap in caps
            if cap["outcome"] is not None
        ],
        "left_out": left_out,
    }


def _compact(case: Mapping[str, Any], points: Mapping[str, Any]) -> dict[str, Any]:
    idle = points["idle"]["nvml_used"]
    steps = [points[step] for step in STEPS]
    return {
        **case,
        "model_kind": model_kind(case["model"]),
        "idle_bytes": idle,
        "context_bytes": points["context"]["nvml_used"] - idle,
        "allocated_bytes": [step["allocated_peak"] for step in steps],
        "reserved_bytes": [step["reserved_peak"] for step in steps],
        "device_bytes": [step["nvml_used"] - idle for step in steps],
    }


def trace_case(case: Mapping[str, Any], work: Path, python: str, cases: str) -> Path:
    """The op trace of a case, made where the work folder has none."""
    from trainload.run import OpTraceRequest, parse_build, spawn_op_trace

    folder = work / case["name"]
    path = folder / "ops.jsonl.gz"
    if not path.exists():
        momentum = case["optimizer"] == "momentum"
        step = parse_build(
            f"{ROOT / 'bench' / cases}.py:{case['model']}",
            batch_size=case["batch"],
            precision=case["precision"],
            optimizer="sgd" if momentum else case["optimizer"],
            momentum=0.9 if momentum else 0.0,
        )
        spawn_op_trace(OpTraceRequest(source=step, python=python), folder)
    return path


def estimate_case(
    case: Mapping[str, Any],
    caps: Iterable[Mapping[str, Any]],
    work: Path,
    python: str,
    cases: str,
) -> tuple[dict[str, Any] | None, list[dict[str, Any]], dict[str, str] | None]:
    """The case's row, its verdicts at each cap, or why it has none."""
    from trainload.errors import TrainloadError
    from trainload.estimate.memory.device import find_device_memory
    from trainload.estimate.memory.fit import Span, chance_of_running_out, estimate_memory, judge
    from trainload.estimate.memory.op_trace import load_op_trace
    from trainload.hardware.catalogue import find_device

    device = find_device_memory(find_device(DEVICE))
    try:
        events = tuple(load_op_trace(trace_case(case, work, python, cases)).events())
    except TrainloadError as error:
        return None, [], {"name": case["name"], "reason": str(error)}
    found = estimate_memory(events, device.temporaries_of, device.room)
    names = ("allocated", "reserved", "device")
    spans = {name: getattr(found, f"{name}_bytes") for name in names}
    row = {
        "name": case["name"],
        "device": DEVICE,
        "model_kind": case["model_kind"],
        "estimate": {name: span.value_bytes for name, span in spans.items()},
        "range": {name: [span.low_bytes, span.high_bytes] for name, span in spans.items()},
        "truth": {name: max(case[f"{name}_bytes"]) for name in names},
    }
    verdicts = []
    for cap in caps:
        # A cap holds the allocator alone, so there is no context beside it.
        size = cap["cap_bytes"]
        bound, nothing = (Span(value_bytes=n, low_bytes=n, high_bytes=n) for n in (size, 0))
        chance = chance_of_running_out(
            found.least_bytes, replace(device.room, capacity=bound, overhead=nothing)
        )
        verdicts.append(
            {
                "name": case["name"],
                "device": DEVICE,
                "capacity_bytes": size,
                "needed_bytes": found.least_bytes,
                "verdict": judge(chance),
                "outcome": cap["outcome"],
            }
        )
    return row, verdicts, None


def make_card(
    truth: Mapping[str, Any], work: Path, python: str, only: str, module: str
) -> dict[str, Any]:
    """Every case with a truth, estimated."""
    cases = [case for case in truth["cases"] if only in case["name"]]
    caps = [[cap for cap in truth["caps"] if cap["name"] == case["name"]] for case in cases]
    rows, verdicts, left_out = [], [], list(truth["left_out"])
    estimate = partial(estimate_case, work=work, python=python, cases=module)
    with ProcessPoolExecutor(AT_ONCE) as pool:
        for row, judged, problem in pool.map(estimate, cases, caps):
            if problem is not None:
                left_out.append(problem)
                sys.stderr.write(f"{problem['name']}: {problem['reason']}\n")
                continue
            assert row is not None
            rows.append(row)
            verdicts += judged
            sys.stderr.write(f"{row['name']:44} {_errors(row)}\n")
    return {
        "kind": "memory_scorecard",
        "format": 1,
        "command": "bench/memory_scorecard.py --work FOLDER --python PYTHON",
        "truth": {"software": truth["software"]},
        "traced_with": _versions(python),
        "rows": rows,
        "verdicts": verdicts,
        "left_out": left_out,
    }


def _versions(python: str) -> dict[str, str]:
    """Of the libraries that the steps were traced with; another version may train otherwise."""
    names = ("torch", "torchvision", "transformers")
    code = f"from importlib.metadata import version as v; print(*map(v, {names!r}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return dict(zip(names, done.stdout.split(), strict=True))


def _errors(row: Mapping[str, Any]) -> str:
    """Of each quantity, with a star where its range does not hold the truth."""
    return "  ".join(
        f"{name} {row['estimate'][name] / value - 1:+7.1%}{' ' if _holds(row, name) else '*'}"
        for name, value in row["truth"].items()
    )


def _holds(row: Mapping[str, Any], name: str) -> bool:
    low, high = row["range"][name]
    return bool(low <= row["truth"][name] <= high)


def _summarise(rows: list[Mapping[str, Any]]) -> None:
    """Median and worst error of each quantity, and how many ranges hold."""
    for name in rows[0]["truth"] if rows else ():
        errors = [row["estimate"][name] / row["truth"][name] - 1 for row in rows]
        held = sum(_holds(row, name) for row in rows)
        print(
            f"{name:10} median {median(map(abs, errors)):.1%} off, worst "
            f"{max(errors, key=abs):+.1%}, in range {held} of {len(rows)}"
        )


def _save(path: Path, document: Mapping[str, Any]) -> None:
    """JSON with one line for each row."""
    parts = []
    for key, value in document.items():
        text = json.dumps(value)
        if isinstance(value, list) and value:
            text = "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"
        parts.append(f" {json.dumps(key)}: {text}")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="what memory_truth.py left")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--cases", default="memory_cases", help="or memory_families")
    parser.add_argument("--out", type=Path, help="default: the card under docs/measurements/raw")
    given = parser.parse_args()
    # The cases build models of the zoo and of bench.
    known = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = f"{ROOT / 'src'}:{ROOT / 'bench'}:{known}"
    row, out = CARDS[given.cases]
    out = given.out or out
    if given.folder is not None:
        keep("memory_truth", row, figures=read_folder(given.folder))
    truth = load_figures("memory_truth", row)
    card = make_card(truth, given.work, given.python, given.only, given.cases)
    _save(out, card)
    _summarise(card["rows"])
    print(f"{len(card['rows'])} cases, {len(card['verdicts'])} verdicts: {out}")


if __name__ == "__main__":
    main()
