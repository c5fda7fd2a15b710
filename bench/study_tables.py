"""Tables over many long runs: time and peak memory of `trainload analyse`, from kept figures.

    python bench/study_tables.py [--runs 1000] [--json FILE]

One run of an hour at 10 Hz (36,000 samples × 60 columns) is made and sealed; its copies are the
runs of a grid of 4 × 5 × 5 cells with varied figures, tables included. The verb then runs in a
process of its own, printing every table as JSON. `--again` runs it once more with the kept figures
of every hundredth run removed: those are made again from 36,000 samples.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from record_hour import ROWS, make_hour
from trainload.api.loading import load, load_run_figures
from trainload.record.figures import manifest_sha256, save_figures
from trainload.record.layout import FIGURES, MANIFEST

GRID = {"model": ("a", "b", "c", "d"), "batch_size": (8, 16, 32, 64, 128), "lr": (1, 2, 3, 4, 5)}
WITHIN_S, WITHIN_BYTES = 15.0, 2 * 2**30


def make_study(folder: Path, runs: int) -> Path:
    """A folder of so many sealed runs, each with all its samples."""
    hour = make_hour(folder)
    load(hour)
    figures = load_run_figures(hour)
    document = json.loads((hour / MANIFEST).read_text())
    draw, study = random.Random(1), folder / "study"
    for number in range(runs):
        cell, factors = number % 100, {}
        for name, levels in GRID.items():
            cell, at = divmod(cell, len(levels))
            factors[name] = levels[at]
        told = {"study": "s", "cell": str(number % 100), "factors": factors}
        run = study / "runs" / f"run-{number:05d}"
        # Linked tables: a thousand hours would be 9 GB of the same bytes.
        shutil.copytree(hour, run, copy_function=os.link)
        for name in (MANIFEST, FIGURES):
            (run / name).unlink()
        (run / MANIFEST).write_text(json.dumps({**document, "run_id": run.name, "study": told}))
        slower = (1 + factors["batch_size"] / 100) * (1 + factors["lr"] / 50)
        metrics = {
            name: value * slower * draw.lognormvariate(0, 0.05)
            for name, value in figures.metrics.items()
        }
        save_figures(
            run,
            replace(
                figures,
                run_id=run.name,
                run_sha256=manifest_sha256(run),
                study="s",
                cell=told["cell"],
                factors=factors,
                metrics=metrics,
            ),
        )
    return study


def measure(study: Path) -> dict[str, Any]:
    """Wall time, peak memory and what was printed, of the verb in a process of its own."""
    began_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "trainload", "analyse", str(study), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    took_s = time.monotonic() - began_s
    told = json.loads(done.stdout)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall_s": took_s,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * 1024,
        "runs": len(told["runs"]),
        "rows": {name: len(rows) for name, rows in told.items() if isinstance(rows, list)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        study = make_study(Path(folder), words.runs)
        found = measure(study)
        print(
            f"{found['runs']} runs of {ROWS} samples, {found['rows']['cells']} rows of cells: "
            f"{found['wall_s']:.1f} s ({found['cpu_s']:.1f} s of CPU), "
            f"{found['peak_bytes'] / 2**20:.0f} MiB at most"
        )
        if words.again:
            for path in sorted((study / "runs").iterdir())[::100]:
                (path / FIGURES).unlink()
            began_s = measure(study)["wall_s"]
            print(f"with the figures of every hundredth run made again: {began_s:.1f} s")
    if words.json is not None:
        words.json.write_text(json.dumps(found))
    sys.exit(0 if found["wall_s"] <= WITHIN_S and found["peak_bytes"] <= WITHIN_BYTES else 1)


if __name__ == "__main__":
    main()
