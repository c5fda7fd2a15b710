"""Step time under `trainload run` over that of a loop written by hand, in each framework.

    python bench/driver_cost.py --rounds 12 --json docs/measurements/raw/driver_cost_cpu.json

The loops of `bench/scripts/loop_*.py` train an equal model, written natively, on the very batches
of the run. Both sides run in processes of their own, in turns; the first steps are left out on
both. What counts is the whole time from there to the last step's end, over the number of steps.
"""

import argparse
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy

from trainload.intervals import ratio_interval
from trainload.record import open_run
from trainload.run import find_environment
from trainload.workload import assemble_workload
from trainload_worker.prepare import prepare
from trainload_worker.spec import Spec
from trainload_worker.spec_reading import parse_spec

LIMIT = 1.02
FRAMEWORKS = ("torch", "tensorflow", "jax", "mxnet")
MODELS = {"mlp": (512, 20), "lenet5": (64, 40)}
"""Examples in a batch and steps in an epoch."""
SCRIPTS = Path(__file__).with_name("scripts")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--frameworks", nargs="+", choices=FRAMEWORKS, default=list(FRAMEWORKS))
    parser.add_argument("--rounds", type=int, default=12, help="pairs of each kind; 4 at least")
    parser.add_argument(
        "--epochs", type=int, default=20, help="of each process; the first warms up"
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for model in options.models:
        with tempfile.TemporaryDirectory() as scratch:
            words = write_batches(model, Path(scratch), options)
            rows += [
                compare(model, framework, words, Path(scratch), options)
                for framework in options.frameworks
            ]
    print("  step time under trainload over a loop by hand, 95 % interval:")
    for row in rows:
        print(f"  {row['model']:8} {row['framework']:11} {row['text']}")
    if options.json:
        document = {"command": shlex.join(["python", *sys.argv]), "rows": rows}
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return int(any(row["ratio"] is None or row["ratio"] > LIMIT for row in rows))


def write_batches(model: str, folder: Path, options: Any) -> dict[str, str]:
    """The run's own examples and order, as files that need no trainload; its `--set` words."""
    batch_size, per_epoch = MODELS[model]
    words = {
        "data": "synthetic",
        "rows": str(math.ceil(batch_size * per_epoch / 0.8)),
        "batch_size": str(batch_size),
        "epochs": str(options.epochs),
        "validate": "never",
        "learning_rate": "1e-4",
        "weight_decay": "1e-4",
    }
    workload = assemble_workload(model, words)
    document = {
        "format": 1,
        "events_path": str(folder / "none.jsonl"),
        "framework": "torch",
        **workload.to_worker(),
        "setting": {"cores": None, "threads": options.threads, "accelerators": []},
    }
    spec = parse_spec(json.dumps(document))
    assert isinstance(spec, Spec)
    made = prepare(spec)
    batches: list[list[int]] = []
    for epoch in range(options.epochs):
        rows = list(made.rows_of(epoch))
        batches += [rows[at : at + batch_size] for at in range(0, len(rows), batch_size)]
    shape = spec.graph.layers[0].output_shape
    features = numpy.frombuffer(made.dataset.features, dtype=made.dataset.form)
    numpy.save(folder / "features.npy", features.reshape(-1, *shape))
    numpy.save(folder / "labels.npy", numpy.frombuffer(made.dataset.labels, dtype=numpy.int64))
    (folder / "batches.json").write_text(json.dumps(batches))
    given = {"model": model, "threads": options.threads, "warm_up": made.steps_per_epoch}
    (folder / "options.json").write_text(json.dumps(given))
    return words


def compare(
    model: str, framework: str, words: dict[str, str], folder: Path, options: Any
) -> dict[str, Any]:
    """Pairs of processes, in turns, and the ratio of their step times."""
    python = find_environment(framework).python
    row: dict[str, Any] = {"model": model, "framework": framework, "ratio": None}
    if python is None:
        return {**row, "text": f"not installed: trainload env create {framework}"}
    ratios, by_hand, driven = [], [], []
    for number in range(options.rounds):
        print(f"  {model} in {framework}: round {number + 1}", file=sys.stderr, flush=True)
        sides = {}
        for side in ("hand", "run") if number % 2 else ("run", "hand"):
            if side == "hand":
                sides[side] = time_loop(framework, python, folder)
            else:
                sides[side] = time_run(model, framework, words, folder)
        by_hand.append(sides["hand"])
        driven.append(sides["run"])
        ratios.append(math.log(sides["run"] / sides["hand"]))
    interval = ratio_interval(ratios)
    row |= {"by_hand_step_s": by_hand, "run_step_s": driven}
    text = f"{statistics.median(driven) * 1e3:8.2f} over {statistics.median(by_hand) * 1e3:8.2f} ms"
    if interval is None:
        ratio = math.exp(statistics.median(ratios))
        return {**row, "ratio": ratio, "text": f"{text}: {ratio:.4f} (too few rounds)"}
    row |= {"ratio": interval.value, "low": interval.low, "high": interval.high}
    found = f"{interval.value:.4f} [{interval.low:.4f}, {interval.high:.4f}]"
    return {**row, "text": f"{text}: {found} of {options.rounds} rounds"}


def time_loop(framework: str, python: str, folder: Path) -> float:
    """Seconds a step of the loop by hand."""
    done = subprocess.run(
        [python, str(SCRIPTS / f"loop_{framework}.py"), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return float(json.loads(done.stdout.splitlines()[-1])["step_s"])


def time_run(model: str, framework: str, words: dict[str, str], folder: Path) -> float:
    """Seconds a step of a measured run, epochs' ends included."""
    given = json.loads((folder / "options.json").read_text())
    warm_up, threads = given["warm_up"], given["threads"]
    sets = [f"--set={name}={value}" for name, value in words.items()]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "trainload", "run", model, f"--framework={framework}"),
            *(*sets, f"--threads={threads}", f"--out={folder}", "--json"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    steps = open_run(Path(json.loads(done.stdout)["path"])).steps
    seconds = steps["end_s"][-1] - steps["end_s"][warm_up - 1]
    return float(seconds) / (steps.height - warm_up)


if __name__ == "__main__":
    sys.exit(main())
