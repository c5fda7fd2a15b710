"""How often `trainload compare` calls two sets different that were drawn from one pool of runs.

    python bench/compare_equal.py 'planted/*/plain/*' --draws 200 [--keep cpu]
    python bench/compare_equal.py pool --make 24         # first makes such a pool, of one script
    python bench/compare_equal.py pool --make 24 --fake  # of the fake framework: seconds, no torch
    python bench/compare_equal.py --simulate             # 31 metrics drawn from stated noises

Sets of 2, 3, 4 and 6 runs are drawn again and again, without putting back within one comparison.
A comparison is clean when no metric has a verdict of difference; parts of the step are counted
beside. Wanted: 19 of 20 clean. `--keep ROW` puts the figures under docs/measurements
(bench/raw.py).
"""

import argparse
import math
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "bench")]
import trainload  # noqa: E402
from raw import keep  # noqa: E402
from trainload.analyse.compare import ComparedRun, Known, Side, compare_sides  # noqa: E402
from trainload.api.comparing import find_runs, read_compared  # noqa: E402
from trainload.record.figures import RunFigures  # noqa: E402

SCRIPT = ROOT / "bench" / "scripts" / "planted_case.py"
SIZES = (2, 3, 4, 6)
ALIKE = ("same", "inconclusive")


def make_pool(folder: Path, count: int, *, fake: bool) -> None:
    """Runs of the bench's script without a planting, until there are so many.

    Those of the fake framework wait instead of training; their meters and clocks are real.
    """
    while len(list(folder.glob("*/run.json"))) < count:
        if fake:
            trainload.run("mlp", framework="fake", max_steps=100, out=folder, check_overhead=False)
            continue
        command = [sys.executable, "-m", "trainload.run", str(SCRIPT), "--layers"]
        command += [
            "--layer-budget",
            "0.3",
            "--threads",
            "1",
            "--out",
            str(folder),
            "--",
            "--steps",
            "60",
        ]
        subprocess.run(command, check=True, capture_output=True)


def draw(pool: list[ComparedRun], size: int, draws: int, choose: random.Random) -> dict:
    """The verdicts of some comparisons of two sets of this size."""
    clean = clean_layers = steps = 0
    named: Counter[str] = Counter()
    for _ in range(draws):
        taken = choose.sample(pool, 2 * size)
        a, b = (Side(name=n, runs=tuple(taken[i::2])) for i, n in enumerate("ab"))
        found = compare_sides(a, b, Known())
        differing = [one.name for one in found.metrics if one.verdict not in ALIKE]
        named.update(differing)
        clean += not differing
        steps += "step_s" in differing
        clean_layers += all(part.verdict in ALIKE for part in found.layers)
    return {
        "size": size,
        "draws": draws,
        "clean": clean,
        "step_differs": steps,
        "clean_layers": clean_layers,
        "named": dict(named.most_common(10)),
    }


def simulate(draws: int, choose: random.Random) -> list[dict]:
    """Sets of runs whose metrics are drawn one by one from a noise: harder than real ones, of
    which many go together."""

    def lognormal(sigma: float) -> float:
        return math.exp(choose.gauss(0, sigma))

    noises = {
        "lognormal, σ 0.1": lambda: lognormal(0.1),
        "gamma, shape 4": lambda: choose.gammavariate(4, 0.25),
        "5 % outliers × 3": lambda: lognormal(0.02) * (3 if choose.random() < 0.05 else 1),
        "20 % outliers × 2": lambda: lognormal(0.02) * (2 if choose.random() < 0.2 else 1),
        "two values, 10 % apart": lambda: 1.1 if choose.random() < 0.5 else 1.0,
    }
    names = ["step_s", *(f"m{at}" for at in range(30))]
    rows = []
    for title, noise in noises.items():
        for size in SIZES:
            clean = 0
            for _ in range(draws):
                sides = [
                    Side(
                        name=side,
                        runs=tuple(_run({n: noise() for n in names}) for _ in range(size)),
                    )
                    for side in "ab"
                ]
                found = compare_sides(*sides, Known())
                clean += all(one.verdict in ALIKE for one in found.metrics)
            rows.append({"noise": title, "size": size, "draws": draws, "clean": clean})
            print(f"{title:24} {size} + {size} runs: {clean} of {draws} clean", flush=True)
    return rows


def _run(metrics: dict[str, float]) -> ComparedRun:
    return ComparedRun(name="", figures=RunFigures(run_sha256="", run_id="", metrics=metrics))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pool", nargs="?", default="pool")
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--make", type=int, default=0, metavar="RUNS")
    parser.add_argument("--fake", action="store_true")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--keep", metavar="ROW")
    words = parser.parse_args()
    if words.simulate:
        rows = simulate(words.draws, random.Random(words.seed))
        if words.keep:
            keep("compare_equal", words.keep, figures={"seed": words.seed, "rows": rows})
        return
    if words.make:
        make_pool(Path(words.pool), words.make, fake=words.fake)
    _, found = find_runs(words.pool)
    pool = [
        read_compared(path, run.figures, layers=True)
        for path, run in found
        if run.reason is None and run.figures is not None
    ]
    choose = random.Random(words.seed)
    sizes = [size for size in SIZES if 2 * size <= len(pool)]
    rows = [draw(pool, size, words.draws, choose) for size in sizes]
    lines = [
        f"pool of {len(pool)} runs, {len(pool[0].figures.metrics)} metrics",
        *(
            f"{row['size']} + {row['size']} runs: {row['clean']} of {row['draws']} clean "
            f"({row['clean'] / row['draws']:.1%}); step time differs in {row['step_differs']}; "
            f"no layer differs in {row['clean_layers']}; named: {row['named'] or 'none'}"
            for row in rows
        ),
    ]
    print("\n".join(lines))
    if words.keep:
        steps = [run.figures.metrics.get("step_s") for run in pool]
        figures = {"runs": len(pool), "step_s": steps, "seed": words.seed, "rows": rows}
        keep("compare_equal", words.keep, printed="\n".join(lines) + "\n", figures=figures)


if __name__ == "__main__":
    main()
