"""Seven CNNs (Zanchetta 2022) in each framework, side by side: short trainings that must learn.

    python bench/seven_cnns.py --json FILE

Every network trains by `trainload run` on synthetic images of ten classes: in every framework on
the same images, in the same order, from the same weights. Dropout alone is drawn by each itself.
Frameworks come from `trainload env`. Exit status 1 where a training ended early or its loss did
not fall.
"""

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from trainload.record import open_run

SIDES = {
    # In the edge evaluation's order.
    "lenet5": 32,
    "alexnet": 64,
    "vgg16": 32,
    "inception_v3": 75,
    "resnet152": 32,
    "densenet121": 32,
    "squeezenet1_1": 64,
}
"""Side of the images in pixels: about the smallest that the network takes."""
RATES = {"resnet152": 1e-3}
"""Learning rates of Adam; 2e-4 for the others, most of which leap at more."""
FRAMEWORKS = ("torch", "tensorflow", "jax", "mxnet")
ENDS = 5
"""Steps at each end whose losses are averaged."""
FALL = 0.8
"""The last losses' mean must be below this share of the first's."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=SIDES, default=list(SIDES), metavar="MODEL")
    parser.add_argument("--frameworks", nargs="+", choices=FRAMEWORKS, default=list(FRAMEWORKS))
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--optimizer", default="adam")
    parser.add_argument("--learning-rate", type=float, help="of all; default each network's own")
    parser.add_argument("--setting", help="as for trainload run; default all cores")
    parser.add_argument("--threads", type=int, help="as for trainload run; default the cores")
    parser.add_argument("--out", type=Path, help="keep the run directories there")
    parser.add_argument("--json", type=Path, help="write the results there")
    options = parser.parse_args()
    rows = load(options)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.out or Path(scratch)
        for model in options.models:
            for framework in options.frameworks:
                if any((row["model"], row["framework"]) == (model, framework) for row in rows):
                    continue
                print(f"  {model} in {framework} …", file=sys.stderr, flush=True)
                rows.append(train(model, framework, folder, options))
                print(f"  {render(rows[-1])}", file=sys.stderr, flush=True)
                if options.json:
                    write(options.json, rows, options)
    print_table(rows, options.frameworks)
    return int(any(row["problem"] for row in rows))


def describe(options: Any) -> dict[str, Any]:
    """What all runs have in common."""
    names = ("steps", "batch_size", "optimizer", "learning_rate", "setting", "threads")
    return {name: getattr(options, name) for name in names}


def load(options: Any) -> list[dict[str, Any]]:
    """Runs of a bench with these options that was cut off before its end; it is gone on with."""
    if options.json is None or not options.json.exists():
        return []
    document = json.loads(options.json.read_text())
    same = all(document.get(name) == value for name, value in describe(options).items())
    return [row for row in document["runs"] if row["problem"] is None] if same else []


def write(path: Path, rows: list[dict[str, Any]], options: Any) -> None:
    """All results so far."""
    command = shlex.join(["python", *sys.argv])
    document = {"command": command, **describe(options), "averaged_steps": ENDS, "runs": rows}
    path.write_text(json.dumps(document, indent=1) + "\n")


def train(model: str, framework: str, folder: Path, options: Any) -> dict[str, Any]:
    """One run of the product, and what its record says."""
    side = SIDES[model]
    sets = {
        "classes": 10,
        "image_channels": 3,
        "image_height": side,
        "image_width": side,
        "rows": 25 * options.batch_size,
        "max_steps": options.steps,
        "weight_decay": 0,
    }
    words = [f"--set={name}={value}" for name, value in sets.items()]
    words += [f"--batch-size={options.batch_size}", f"--optimizer={options.optimizer}"]
    rate = options.learning_rate or RATES.get(model, 2e-4)
    words += [f"--learning-rate={rate}", "--epochs=1000", "--data=synthetic"]
    words += [f"--setting={options.setting}"] if options.setting else []
    words += [f"--threads={options.threads}"] if options.threads else []
    command = [sys.executable, "-m", "trainload", "run", model, f"--framework={framework}", *words]
    start_s = time.monotonic()
    done = subprocess.run(
        [*command, "--no-check-overhead", "--json", f"--out={folder}"],
        capture_output=True,
        text=True,
        check=False,
    )
    row: dict[str, Any] = {"model": model, "framework": framework, "image_side": side}
    row["learning_rate"] = rate
    row["wall_s"] = time.monotonic() - start_s
    if not done.stdout:
        return {**row, "problem": (done.stderr.strip().splitlines() or ["no reason given"])[-1]}
    result = json.loads(done.stdout)
    if result["outcome"] != "completed":
        return {**row, "problem": f"{result['outcome']}: {result['outcome_reason']}"}
    return {**row, **read(Path(result["path"]))}


def read(path: Path) -> dict[str, Any]:
    """Losses, step time and parameters of a run."""
    run = open_run(path)
    steps = run.steps
    losses = [float(loss) for loss in steps["loss"]]
    first, last = statistics.mean(losses[:ENDS]), statistics.mean(losses[-ENDS:])
    fell = last < FALL * first
    return {
        "framework_version": run.manifest.software.get("framework_version"),
        "parameters": run.manifest.model.parameters,
        "first_loss": first,
        "last_loss": last,
        "losses": losses,
        "median_step_s": float(steps["step_s"][1:].median()),
        "problem": None if fell else f"the loss did not fall: {first:.3f}, then {last:.3f}",
    }


def render(row: dict[str, Any]) -> str:
    """First and last loss and the median step; or what went wrong."""
    if row["problem"] and "first_loss" not in row:
        return str(row["problem"])
    fell = "" if row["problem"] is None else " DID NOT FALL"
    return (
        f"{row['first_loss']:6.3f} → {row['last_loss']:5.3f}  "
        f"{row['median_step_s'] * 1e3:6.0f} ms{fell}"
    )


def print_table(rows: list[dict[str, Any]], frameworks: list[str]) -> None:
    """One line a network, one column a framework."""
    print("mean loss of the first and the last steps, median step:")
    heads = "".join(f"{name:28}" for name in frameworks)
    print(f"  {'model':14} {'parameters':>12}  {heads}")
    for model in SIDES:
        if all(row["model"] != model for row in rows):
            continue
        found = {row["framework"]: row for row in rows if row["model"] == model}
        counts = {row["parameters"] for row in found.values() if "parameters" in row}
        count = " ≠ ".join(f"{number:,}" for number in sorted(counts)) or "–"
        cells = "".join(f"{render(found[name])[:26]:28}" for name in frameworks if name in found)
        print(f"  {model:14} {count:>12}  {cells}")
    for row in rows:
        if row["problem"]:
            print(f"  {row['model']} in {row['framework']}: {row['problem']}")


if __name__ == "__main__":
    sys.exit(main())
