"""What watching a script costs, from outside: separate, alternating processes, the script's clock.

    python bench/layers_outside.py --cases lstm,resnet50 --rounds 8 --seconds 8 --out FILE.jsonl

Each round runs a case plain, watched without layers and watched with layers, in changing order. Of
each process the script's own loop time is taken, and of those with layers also the steps outside
of the windows. Prints ratios against the plain process of the same round: their mean of logarithms
with a 95 % interval. Raw figures of every process are appended to --out, and earlier ones of the
same file are pooled with them. `--rows h200-1,h200-2` prints those kept under docs/measurements
(bench/raw.py layers_outside) and runs nothing.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "bench")]
from raw import load_figures  # noqa: E402
from trainload.intervals import ratio_interval  # noqa: E402

SCRIPT = ROOT / "bench" / "scripts" / "outside_case.py"
VARIANTS = ("plain", "watched", "layers")
GPU_CASES = "lstm,resnet50,mlp,gpt2,gpt_compiled"
CPU_CASES = "mlp,mlp256,cnn,lstm_small,gpt_small"
SKIRT = 2
"""Steps on each side of a window that may pay for it."""


def run_once(case: str, variant: str, seconds: float, steps: int) -> dict:
    """One process; its own figures, and where its windows were."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        arguments = [case, str(seconds), str(result), str(steps)]
        command = [sys.executable, str(SCRIPT), *arguments]
        if variant != "plain":
            layers = "--layers" if variant == "layers" else "--no-layers"
            head = [sys.executable, "-m", "trainload.run", str(SCRIPT), layers]
            command = [*head, "--out", f"{folder}/runs", "--", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode or not result.exists():
            raise SystemExit(f"{case} {variant} failed: {done.stdout[-500:]}{done.stderr[-1500:]}")
        row = {"case": case, "variant": variant, **json.loads(result.read_text())}
        row["windows"], row["stated_s"] = windows_of(Path(folder) / "runs")
    return row


def windows_of(runs: Path) -> tuple[list[list[int]], float]:
    """First and last step of each traced window, as the script counts them, and the stated cost."""
    found, cost_s = [], 0.0
    for path in runs.glob("*/events.jsonl"):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if event["kind"] == "window":
                # The script's first ten steps warm up and are not in its list.
                found.append([event["disturbed"][0] - 10, event["disturbed"][1] - 10])
                cost_s += event["cost_s"]
    return found, cost_s


def outside_step_s(row: dict) -> float:
    """Mean time of a step outside of windows, by the script's own clock."""
    ends = row["ends_s"]
    skipped = {
        step for first, last in row["windows"] for step in range(first - SKIRT, last + SKIRT + 1)
    }
    # The last step's end is taken after the device was waited for.
    times = [b - a for a, b in zip([0.0, *ends], [*ends[:-1], row["loop_s"]], strict=False)]
    kept = [time_s for step, time_s in enumerate(times) if step not in skipped]
    return sum(kept) / len(kept)


def render(ratios: list[float]) -> str:
    """Their trimmed mean with its interval; the median alone where they are too few for one."""
    found = ratio_interval([math.log(ratio) for ratio in ratios])
    if found is None:
        return f"{statistics.median(ratios):.4f} (too few rounds for an interval)"
    return f"{found.value:.4f} [{found.low:.4f}, {found.high:.4f}]"


def summarise(rows: list[dict]) -> None:
    """Print the ratios of every case."""
    cases = list(dict.fromkeys(row["case"] for row in rows))
    for case in cases:
        by = {v: [r for r in rows if r["case"] == case and r["variant"] == v] for v in VARIANTS}
        rounds = min(len(by["plain"]), len(by["layers"]))
        if rounds < 2:
            continue
        plain = by["plain"][:rounds]
        step_ms = statistics.median(r["loop_s"] / r["steps"] for r in plain) * 1e3
        print(f"{case}: {rounds} rounds, {plain[0]['steps']} steps of {step_ms:.3f} ms")
        loops = [row["loop_s"] for row in plain]
        steps = [row["loop_s"] / row["steps"] for row in plain]
        cpus = [row["cpu_s"] for row in plain]
        layered = by["layers"][:rounds]
        figures = {
            "watched, no layers": ([r["loop_s"] for r in by["watched"][:rounds]], loops),
            "with layers, total": ([r["loop_s"] for r in layered], loops),
            "with layers, outside windows": ([outside_step_s(r) for r in layered], steps),
            "with layers, CPU seconds": ([r["cpu_s"] for r in layered], cpus),
        }
        for name, (ours, theirs) in figures.items():
            ratios = [a / b for a, b in zip(ours, theirs, strict=False)]
            if ratios:
                print(f"  {name:30s} {render(ratios)}")
        stated = statistics.median(r["stated_s"] / r["loop_s"] for r in by["layers"][:rounds])
        count = statistics.median(len(r["windows"]) for r in by["layers"][:rounds])
        print(f"  stated by the run              {stated:+.4f} in {count:g} windows", flush=True)


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cases", default=GPU_CASES if torch.cuda.is_available() else CPU_CASES)
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rows", help="names of kept rows to print, with commas between them")
    options = parser.parse_args()
    if options.rows is not None:
        names = options.rows.split(",")
        summarise([row for name in names for row in load_figures("layers_outside", name)])
        return
    rows = []
    if options.out is not None and options.out.exists():
        rows = [json.loads(line) for line in options.out.read_text().splitlines()]
    variants = options.variants.split(",")
    for case in options.cases.split(","):
        known = [row["steps"] for row in rows if row["case"] == case]
        steps = known[0] if known else 0
        done = len(known) // len(variants)
        for number in range(done, done + options.rounds):
            order = variants[number % len(variants) :] + variants[: number % len(variants)]
            for variant in order:
                row = run_once(case, variant, options.seconds, steps)
                steps = row["steps"]
                rows.append(row)
                if options.out is not None:
                    with options.out.open("a") as file:
                        file.write(json.dumps(row) + "\n")
        summarise([row for row in rows if row["case"] == case])


if __name__ == "__main__":
    main()
