"""Listing many long runs: time of `trainload ls`, from kept figures.

    python bench/list_runs.py [--runs 1000] [--json FILE]

The runs are those of study_tables.py: an hour at 10 Hz each, in a grid of 100 cells. The verb runs
in a process of its own, three times; the median counts.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from study_tables import make_study

WITHIN_S = 3.0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--json", type=Path, metavar="FILE")
    words = parser.parse_args()
    times_s = []
    with tempfile.TemporaryDirectory() as folder:
        study = make_study(Path(folder), words.runs)
        for _ in range(3):
            began_s = time.monotonic()
            command = [sys.executable, "-m", "trainload", "ls", str(study)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            times_s.append(time.monotonic() - began_s)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {
        "runs": len(done.stdout.splitlines()) - 1,
        "wall_s": statistics.median(times_s),
        "cpu_s": (usage.ru_utime + usage.ru_stime) / 3,
    }
    print(f"{found['runs']} runs listed in {found['wall_s']:.2f} s ({found['cpu_s']:.2f} s of CPU)")
    if words.json is not None:
        words.json.write_text(json.dumps(found))
    sys.exit(0 if found["wall_s"] <= WITHIN_S else 1)


if __name__ == "__main__":
    main()
