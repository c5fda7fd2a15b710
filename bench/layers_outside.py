"""What watching a script costs, from outside: separate, alternating processes, the script's clock.

    python bench/layers_outside.py --cases lstm,resnet50 --rounds 8 --seconds 8 --out FILE.jsonl

Each round runs a case plain, watched without layers and watched with layers, in changing order. Of
each process the script's own loop time is taken, and of those with layers also the steps outside
of the windows. Prints ratios against the plain process of the same round: their mean of logarithms
with a 95 % interval. Raw figures of every process are appended to --out, and earlier ones of the
same file are pooled with them. `--rows h200-1,h200-2` prints those kept under docs/measurements
(bench/raw.py layers_outside) and runs nothing.

With --beside, for machines whose speed changes from second to second: the plain process and the one
with layers run at the same time, each on a core of its own with all that belongs to it, and change
cores with every round; so many rounds as the half-width needs to be below --within, or --most.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "bench")]
from raw import load_figures  # noqa: E402
from trainload.intervals import ratio_interval  # noqa: E402

SCRIPT = ROOT / "bench" / "scripts" / "outside_case.py"
VARIANTS = ("plain", "watched", "layers")
GPU_CASES = "lstm,resnet50,mlp,gpt2,gpt_compiled"
CPU_CASES = "mlp,mlp256,cnn,lstm_small,gpt_small"
BEFORE, AFTER = 2, 10
"""Steps on each side of a window that may pay for it, or hurry until the device's queue is full."""


def run_once(
    case: str,
    variant: str,
    seconds: float,
    steps: int,
    core: int | None = None,
    meeting: tuple[Path, Path] | None = None,
) -> dict:
    """One process; its own figures, and where its windows were."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        arguments = [case, str(seconds), str(result), str(steps), *map(str, meeting or ())]
        command = [sys.executable, str(SCRIPT), *arguments]
        if variant != "plain":
            layers = "--layers" if variant == "layers" else "--no-layers"
            head = [sys.executable, "-m", "trainload.run", str(SCRIPT), layers]
            command = [*head, "--out", f"{folder}/runs", "--", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        if core is not None:
            command = ["taskset", "-c", str(core), *command]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode or not result.exists():
            raise SystemExit(f"{case} {variant} failed: {done.stdout[-500:]}{done.stderr[-1500:]}")
        row = {"case": case, "variant": variant, **json.loads(result.read_text())}
        row["windows"], row["stated_s"] = windows_of(Path(folder) / "runs")
    return row


def run_beside(case: str, seconds: float, steps: int, cores: list[int]) -> list[dict]:
    """A plain process and one with layers at the same time, on the first core and the second."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        here, there = Path(folder) / "plain", Path(folder) / "layers"
        both = [
            pool.submit(run_once, case, "plain", seconds, steps, cores[0], (here, there)),
            pool.submit(run_once, case, "layers", seconds, steps, cores[1], (there, here)),
        ]
        return [one.result() for one in both]


def measure_beside(options: argparse.Namespace, rows: list[dict]) -> None:
    """Rounds of each case until its total is known as well as is asked for."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    for case in options.cases.split(","):
        mine = [row for row in rows if row["case"] == case]
        steps = mine[0]["steps"] if mine else 0
        if not steps:
            steps = run_once(case, "plain", options.seconds, 0, cores[0])["steps"]
        for number in range(len(mine) // 2, options.most):
            order = cores if number % 2 == 0 else cores[::-1]
            made = run_beside(case, options.seconds, steps, order)
            mine += made
            if options.out is not None:
                with options.out.open("a") as file:
                    file.writelines(json.dumps({**row, "beside": True}) + "\n" for row in made)
            totals = [a["loop_s"] / b["loop_s"] for a, b in pair(mine, case, "layers")]
            found = ratio_interval([math.log(ratio) for ratio in totals])
            narrow = found is not None and found.high - found.low <= 2 * options.within
            if number % 2 and number + 1 >= options.rounds and narrow:
                break
        summarise([mine])


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


def outside_ratio(layered: dict, plain: dict) -> float:
    """Time of the steps outside of windows over that of the same steps of the plain process.

    By the script's own clock, which reads when the host has handed a step over. It runs ahead of
    the device at first and after each window, and waits for it at the end: in neither process do
    those steps count, since the two would not have as many of them.
    """
    skipped = set(range(AFTER))
    for first, last in layered["windows"]:
        skipped.update(range(first - BEFORE, last + AFTER + 1))
    ours, theirs = layered["ends_s"], plain["ends_s"]
    kept = [step for step in range(1, len(ours)) if step not in skipped]
    return sum(ours[step] - ours[step - 1] for step in kept) / sum(
        theirs[step] - theirs[step - 1] for step in kept
    )


def render(ratios: list[float]) -> str:
    """Their trimmed mean with its interval; the median alone where they are too few for one."""
    found = ratio_interval([math.log(ratio) for ratio in ratios])
    if found is None:
        return f"{statistics.median(ratios):.4f} (too few rounds for an interval)"
    return f"{found.value:.4f} [{found.low:.4f}, {found.high:.4f}]"


def pair(rows: list[dict], case: str, variant: str) -> list[tuple[dict, dict]]:
    """Each process of a variant with the plain one of its round; what has no partner is left."""
    by = {v: [r for r in rows if r["case"] == case and r["variant"] == v] for v in VARIANTS}
    return list(zip(by[variant], by["plain"], strict=False))


def summarise(sessions: list[list[dict]]) -> None:
    """Print the ratios of every case."""
    for case in dict.fromkeys(row["case"] for rows in sessions for row in rows):
        watched = [both for rows in sessions for both in pair(rows, case, "watched")]
        layered = [both for rows in sessions for both in pair(rows, case, "layers")]
        if len(layered) < 2:
            continue
        step_ms = statistics.median(r["loop_s"] / r["steps"] for _, r in layered) * 1e3
        print(f"{case}: {len(layered)} rounds, {layered[0][1]['steps']} steps of {step_ms:.3f} ms")
        figures = {
            "watched, no layers": [a["loop_s"] / b["loop_s"] for a, b in watched],
            "with layers, total": [a["loop_s"] / b["loop_s"] for a, b in layered],
            "with layers, outside windows": [outside_ratio(a, b) for a, b in layered],
            "with layers, CPU seconds": [a["cpu_s"] / b["cpu_s"] for a, b in layered],
        }
        for name, ratios in figures.items():
            if ratios:
                print(f"  {name:30s} {render(ratios)}")
        stated = statistics.median(r["stated_s"] / r["loop_s"] for r, _ in layered)
        count = statistics.median(len(r["windows"]) for r, _ in layered)
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
    parser.add_argument("--beside", action="store_true", help="both at once, a core each")
    parser.add_argument("--within", type=float, default=0.03, help="half-width, with --beside")
    parser.add_argument("--most", type=int, default=24, help="rounds, with --beside")
    parser.add_argument("--rows", help="names of kept rows to print, with commas between them")
    options = parser.parse_args()
    if options.rows is not None:
        names = options.rows.split(",")
        summarise([load_figures("layers_outside", name) for name in names])
        return
    rows = []
    if options.out is not None and options.out.exists():
        rows = [json.loads(line) for line in options.out.read_text().splitlines()]
    if options.beside:
        measure_beside(options, rows)
        return
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
        summarise([[row for row in rows if row["case"] == case]])


if __name__ == "__main__":
    main()
