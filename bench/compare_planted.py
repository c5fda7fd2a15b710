"""How often `trainload compare` names the layer that was made slower on purpose.

    python bench/compare_planted.py --out planted --rounds 4 --share 0.2 [--threads 1] [--keep cpu]
    python bench/compare_planted.py --out planted --device cuda --share 0.05 --keep h200

For each planting, processes with and without it alternate (bench/scripts/planted_case.py), each a
run with layers. The amount is chosen so that the planting takes `--share` of a step, from one
calibration. Found is a planting whose layer is the first among the slower parts that `compare`
lists, all parts of no layer included. Runs that are in `--out` already are used again, so that an
interrupted bench goes on. `--keep ROW` puts the figures under docs/measurements (bench/raw.py).
"""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "bench")]
from raw import keep  # noqa: E402
from trainload.api.comparing import compare  # noqa: E402

SCRIPT = ROOT / "bench" / "scripts" / "planted_case.py"
PLANTINGS = (
    "body.conv1:repeat",
    "stem.conv:repeat",
    "body.conv2:repeat",
    "body.act:repeat",
    "head.act:repeat",
    "stem.norm:repeat",
    "head.fc1:repeat",
    "head.fc2:sleep",
    "body.pool:synchronise",
    "head.drop:spin",
    "stem.act:backward",
    "body.norm:sleep",
)


def run_script(words: argparse.Namespace, out: Path, *arguments: str) -> None:
    """One measured process."""
    head = [sys.executable, "-m", "trainload.run", str(SCRIPT), "--layers"]
    head += ["--layer-budget", str(words.layer_budget), "--out", str(out)]
    if words.threads is not None:
        head += ["--threads", str(words.threads)]
    tail = ["--steps", str(words.steps), "--width", str(words.width), "--device", words.device]
    done = subprocess.run([*head, "--", *tail, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{arguments} failed: {done.stdout[-500:]}{done.stderr[-1500:]}")


def amounts(words: argparse.Namespace) -> dict[str, float]:
    """How much of each planting takes the asked share of a step; kept beside the runs."""
    kept = words.out / "amounts.json"
    if kept.exists():
        return json.loads(kept.read_text())
    words.out.mkdir(parents=True, exist_ok=True)
    measured = words.out / "calibration.json"
    command = [sys.executable, str(SCRIPT), "--calibrate", str(measured)]
    command += ["--width", str(words.width), "--device", words.device]
    threads = {} if words.threads is None else {"OMP_NUM_THREADS": str(words.threads)}
    subprocess.run(command, check=True, env={**os.environ, **threads})
    times = json.loads(measured.read_text())
    wanted_s = words.share * times["step"]
    found = {}
    for planting in PLANTINGS:
        where, _, how = planting.partition(":")
        works = how in ("repeat", "backward")
        found[planting] = wanted_s / times[where] if works else wanted_s
    kept.write_text(json.dumps(found))
    return found


def measure(words: argparse.Namespace, plantings: list[str], known: dict[str, float]) -> None:
    """Fill the folders of runs up, in rounds: each round has every planting once.

    Without `--shared` each planting has plain runs of its own, before and after it by turns; with
    it, so many plain runs a round stand between the plantings and are compared with all of them.
    """
    apart = -(-len(plantings) // words.shared) if words.shared else 1
    for turn in range(words.rounds):
        for at, planting in enumerate(plantings):
            plain, planted = folders_of(words, planting)
            work = [(planted, ("--plant", planting, "--amount", str(known[planting])))]
            if at % apart == 0:
                work.insert(turn % 2, (plain, ()))
            for here, arguments in work:
                wanted = turn + 1
                if words.shared and not arguments:
                    wanted = turn * words.shared + at // apart + 1
                if len(list(here.glob("*/run.json"))) < wanted:
                    run_script(words, here, *arguments)


def folders_of(words: argparse.Namespace, planting: str) -> tuple[Path, Path]:
    """Of the runs without and with a planting."""
    own = words.out / planting.replace(":", "-")
    return words.out / "plain" if words.shared else own / "plain", own / "planted"


def judge(planting: str, plain: Path, planted: Path) -> dict:
    """What the comparison says, and whether it names the layer."""
    found = compare(plain, planted)
    step = found.metrics[0]
    slower = [part for part in found.layers[:-1] if part.difference_s > 0]
    first = slower[0] if slower else None
    where = planting.partition(":")[0]
    return {
        "planting": planting,
        "step": asdict(step),
        "first": None if first is None else asdict(first),
        "named": first is not None and first.path == where,
        "decided": first is not None and first.path == where and first.verdict == "slower",
        "layers": [asdict(part) for part in found.layers[:8]],
        "others_load": [
            asdict(one) for one in found.environment.differing if "other load" in one.name
        ],
    }


def describe(row: dict) -> str:
    """One line of the table."""
    step, first = row["step"], row["first"] or {}
    bounds = [None if step[k] is None else 100 * step[k] / step["a"] for k in ("low", "high")]
    interval = "–" if None in bounds else f"{bounds[0]:+.1f} … {bounds[1]:+.1f}"
    return (
        f"{row['planting']:24} {step['percent']:+6.1f} % ({interval}) {step['verdict']:13} "
        f"first: {first.get('path')} {first.get('phase')} "
        f"{1e3 * first.get('difference_s', 0):+.2f} ms {first.get('verdict')}"
        f"{'' if row['named'] else '   WRONG'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=4, help="runs on each side")
    parser.add_argument("--share", type=float, default=0.2, help="of the step, planted")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--layer-budget", type=float, default=0.3)
    parser.add_argument("--shared", type=int, default=0, help="plain runs a round, for all")
    parser.add_argument(
        "--judge", action="store_true", help="measure nothing, compare what is there"
    )
    parser.add_argument("--only", default="", help="plantings, with commas")
    parser.add_argument("--keep", metavar="ROW")
    words = parser.parse_args()
    known = amounts(words)
    plantings = words.only.split(",") if words.only else list(PLANTINGS)
    if not words.judge:
        measure(words, plantings, known)
    rows = []
    for planting in plantings:
        rows.append(judge(planting, *folders_of(words, planting)))
        print(describe(rows[-1]), flush=True)
    named, decided = (sum(row[key] for row in rows) for key in ("named", "decided"))
    sure = sum(row["step"]["verdict"] == "slower" for row in rows)
    lines = [
        f"layer named first: {named} of {len(rows)}, with a verdict: {decided}",
        f"step time slower by verdict: {sure} of {len(rows)}",
    ]
    print("\n".join(lines))
    if words.keep:
        printed = "\n".join([*map(describe, rows), *lines]) + "\n"
        asked = {k: str(v) for k, v in vars(words).items() if k not in ("out", "keep", "judge")}
        keep("compare_planted", words.keep, printed=printed, figures={"asked": asked, "rows": rows})


if __name__ == "__main__":
    main()
