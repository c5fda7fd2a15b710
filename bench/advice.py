"""Whether advice is worth following: planted causes, their remedies, and the gain promised.

    python bench/advice.py --rounds 3 --seconds 4 --out FILE.jsonl      # all that this machine can
    python bench/advice.py --cases slow_loader,double --rounds 5 --out FILE.jsonl
    python bench/advice.py --summary FILE.jsonl
    python bench/advice.py --keep RUNS --out FILE.jsonl
    python bench/advice.py --keep RUNS --summary FILE.jsonl

With --keep the watched runs stay in a folder and their advice is read there by --summary: a machine
that measures need not have what reading takes.

Each round runs a case planted and remedied in alternating processes, by the script's own clock, and
once planted under trainload for its advice. A case passes where the planted cause is the first
advice, and where the promised gain is within a factor of two of the gain obtained (medians over
rounds). Others' load on the machine stands first wherever there is any: the first advice about the
script itself is judged, and for `contention` the first of all. `tune` cases were looked at while
the shares in `advice.py` were chosen, `judge` cases were not. Raw rows are appended to --out.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
from trainload.kept_memory import KEEPING  # noqa: E402

SCRIPT = ROOT / "bench" / "scripts" / "advice_case.py"
MACHINE = ("swapping", "cpu_quota", "throttling", "contention")
CASES = {
    "slow_loader": ("input_wait", "tune"),
    "decoding": ("input_wait", "judge"),
    "many_workers": ("input_workers", "tune"),
    "tiny_batches": ("host_bound", "tune"),
    "small_operations": ("host_bound", "judge"),
    "python_between": ("python", "tune"),
    "logging": ("python", "judge"),
    "saving": ("python", "judge"),
    "unfused_adam": ("update_unfused", "tune"),
    "unfused_adamw": ("update_unfused", "judge"),
    "copies": ("copies", "tune"),
    "layout": ("copies", "judge"),
    "clip_loop": ("script_operations", "tune"),
    "metrics": ("script_operations", "judge"),
    "evaluation": ("gradientless", "tune"),
    "teacher": ("gradientless", "judge"),
    "double": ("precision", "judge"),
    "contention": ("contention", "judge"),
    "allocator": ("page_faults", "tune"),
    "allocator_images": ("page_faults", "judge"),
    "one_thread": ("few_threads", "judge"),
    "recompilation": ("recompilation", "judge"),
    "recompiled_shapes": ("recompilation", "judge"),
    "gpu_precision": ("precision", "tune"),
    "gpu_autocast": ("precision", "judge"),
    "gpu_item": ("synchronising", "judge"),
    "gpu_copies": ("copies", "judge"),
    "gpu_launches": ("host_bound", "judge"),
    "gpu_update": ("update_unfused", "judge"),
}
"""The planted cause as advice names it, and whether the case was used to choose the shares."""
BURNERS = 2


def run_script(command: list[str], result: Path, folder: str, **settings: str) -> float:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": folder, **settings}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode or not result.exists():
        raise RuntimeError(f"{done.stdout[-300:]}{done.stderr[-1200:]}")
    return json.loads(result.read_text())["step_s"]


def run_once(case: str, form: str, seconds: float, keep: Path | None) -> dict:
    """One process; `watched` is the planted form under trainload, with its advice or its run."""
    burners = []
    if case == "contention" and form != "remedied":
        loop = [sys.executable, "-c", "while True: pass"]
        burners = [subprocess.Popen(loop) for _ in range(BURNERS)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "result.json"
            planted = "planted" if form == "watched" else form
            arguments = [case, planted, str(seconds), str(result)]
            command = [sys.executable, str(SCRIPT), *arguments]
            if form == "watched":
                head = [sys.executable, "-m", "trainload.run", str(SCRIPT), "--layers"]
                command = [*head, "--out", f"{folder}/runs", "--", *arguments]
            settings = settings_of(case, form)
            step_s = run_script(command, result, folder, **settings)
            row = {"case": case, "form": form, "step_s": step_s}
            if form == "watched":
                made = next(Path(folder, "runs").iterdir())
                if keep is None:
                    row |= advice_of(made)
                else:
                    row["run"] = shutil.copytree(made, keep / made.name).name
            return row
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def settings_of(case: str, form: str) -> dict[str, str]:
    """What stands in the environment, where the cause or its remedy does."""
    if case == "one_thread" and form != "remedied":
        return {"OMP_NUM_THREADS": "1"}
    return dict(KEEPING) if case.startswith("allocator") and form == "remedied" else {}


def advice_of(path: Path) -> dict:
    from trainload.api.loading import load
    from trainload.report import layers_json

    run = load(path)
    loads = {
        name: run.summary.columns[f"{name}_cpu_load_fraction"].mean
        for name in ("host", "run")
        if f"{name}_cpu_load_fraction" in run.summary.columns
    }
    layers = layers_json(run.attribution) if run.attribution is not None else None
    if layers is None:
        return {"advice": [], "loads": loads}
    rank = layers["ranks"][0]
    return {
        "advice": layers["advice"],
        "traced_step_s": rank["step_s"],
        "parts_s": rank["parts_s"],
        "loads": loads,
    }


def judge(case: str, rows: list[dict]) -> dict | None:
    """The case over its rounds; None before each form has run."""
    cause, kind = CASES[case]
    mine = [row for row in rows if row["case"] == case and "step_s" in row]
    times = {
        form: [row["step_s"] for row in mine if row["form"] == form]
        for form in ("planted", "remedied")
    }
    watched = [row for row in mine if row["form"] == "watched"]
    if not (watched and all(times.values())):
        return None
    gain_s = statistics.median(times["planted"]) - statistics.median(times["remedied"])
    firsts, promised = [], []
    for row in watched:
        told = [a for a in row["advice"] if cause in MACHINE or a["topic"] not in MACHINE]
        firsts.append(told[0]["topic"] if told else None)
        promised += [a["gain_s"] for a in told if a["topic"] == cause]
    first = statistics.mode(firsts)
    promise_s = statistics.median(promised) if promised else None
    ratio = promise_s / gain_s if promise_s is not None and gain_s > 0 else None
    return {
        "case": case,
        "kind": kind,
        "cause": cause,
        "first": first,
        "named": first == cause,
        "planted_s": statistics.median(times["planted"]),
        "gain_s": gain_s,
        "promise_s": promise_s,
        "ratio": ratio,
        "within": ratio is not None and 0.5 <= ratio <= 2.0,
    }


def print_table(rows: list[dict]) -> None:
    found = [judged for case in CASES if (judged := judge(case, rows)) is not None]
    print(f"{'case':18} {'set':6} {'planted cause':18} {'named first':18} {'step':>9} "
          f"{'gained':>9} {'promised':>9} {'ratio':>6}")  # fmt: skip
    for case in found:
        promise = "–" if case["promise_s"] is None else f"{case['promise_s'] * 1e3:.2f} ms"
        ratio = "–" if case["ratio"] is None else f"{case['ratio']:.2f}"
        print(f"{case['case']:18} {case['kind']:6} {case['cause']:18} {case['first']!s:18} "
              f"{case['planted_s'] * 1e3:6.2f} ms {case['gain_s'] * 1e3:6.2f} ms {promise:>9} "
              f"{ratio:>6}")  # fmt: skip
    for kind in ("tune", "judge"):
        part = [case for case in found if case["kind"] == kind]
        print(f"{kind}: named first {sum(c['named'] for c in part)} of {len(part)}, gain within a "
              f"factor of two {sum(c['within'] for c in part)} of {len(part)}")  # fmt: skip
    left = [case for case in CASES if case not in {c["case"] for c in found}]
    if left:
        print(f"not run: {', '.join(left)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--out", type=Path, default=Path("advice.jsonl"))
    parser.add_argument("--summary", type=Path)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    if options.summary is not None:
        rows = [json.loads(line) for line in options.summary.read_text().splitlines()]
        for row in rows:
            if "run" in row and options.keep is not None:
                row |= advice_of(options.keep / row["run"])
        print_table(rows)
        return
    import torch

    cases = [case for case in options.cases.split(",") if case]
    if not torch.cuda.is_available():
        skipped = [case for case in cases if case.startswith("gpu_")]
        cases = [case for case in cases if case not in skipped]
        if skipped:
            print(f"without a GPU left out: {', '.join(skipped)}")
    forms = ["planted", "remedied", "watched"]
    with options.out.open("a") as out:
        for turn in range(options.rounds):
            for case in cases:
                for form in forms if turn % 2 == 0 else forms[::-1]:
                    try:
                        row = run_once(case, form, options.seconds, options.keep)
                    except RuntimeError as error:
                        row = {"case": case, "form": form, "failure": str(error)}
                        print(f"{case} {form}: {error}", file=sys.stderr)
                    out.write(json.dumps({"round": turn, **row}) + "\n")
                    out.flush()
    if options.keep is None:
        print_table([json.loads(line) for line in options.out.read_text().splitlines()])


if __name__ == "__main__":
    main()
