"""What it costs to try tables from elsewhere before they are read.

    python bench/foreign_tables.py [--runs 200] [--rounds 5] [--json FILE]
    python bench/foreign_tables.py --damaged 20000          how many damaged ones polars dies of

`load_all(…).table()` of so many runs, no two alike, in processes of their own that take turns:
without any trial, as if they were known; with every table known; and with none known, each tried
first. Then `trainload show` of one run in the same ways. Prints medians by the program's own clock,
and of cores' time, the trial's with it, which a busy machine disturbs less.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden" / "format-1-sealed"
PROGRAM = """
import contextlib, io, os, sys, time
from pathlib import Path
from trainload.api.loading import load_all
from trainload.cli.app import run_app
from trainload.record import sound, trial
from trainload.record.inside import read_inside
import polars
if sys.argv[1] == "untried":
    sound._tried = lambda path: read_inside(path, sound.LARGEST_TABLE_BYTES)
begin_s, begin_cpu_s = time.perf_counter(), sum(os.times()[:4])
if sys.argv[2] == "load_all":
    assert load_all(sys.argv[3]).table()["problem"].null_count() == int(sys.argv[4])
else:
    with contextlib.redirect_stdout(io.StringIO()):
        assert run_app(["show", sys.argv[3]]) == 0
wall_s = time.perf_counter() - begin_s
trial._end()  # its time is ours once it has been waited for
print(wall_s, sum(os.times()[:4]) - begin_cpu_s)
"""


def make_runs(folder: Path, count: int) -> None:
    """Copies of the golden run; a note in each table makes it one of its own."""
    for number in range(count):
        run = folder / f"run-{number:04d}"
        shutil.copytree(GOLDEN, run)
        for path in run.glob("*.parquet"):
            pl.read_parquet(path).write_parquet(path, metadata={"number": str(number)})


def measure(mode: str, what: str, place: Path, count: int, cache: Path) -> tuple[float, float]:
    """Seconds of one process by the clock and of cores; a cold one begins without a cache."""
    if mode == "cold":
        shutil.rmtree(cache, ignore_errors=True)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, mode, what, str(place), str(count)],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        check=True,
        capture_output=True,
        text=True,
    )
    wall_s, cpu_s = map(float, done.stdout.split())
    return wall_s, cpu_s


def count_damaged(count: int, seed: int = 1) -> None:
    """Print how many tables with one to five bits flipped are refused, and how many kill."""
    from trainload.record.trial import find_trouble

    tables = [path.read_bytes() for path in sorted(GOLDEN.glob("*.parquet"))]
    dice = random.Random(seed)
    refused = deaths = 0
    for _ in range(count):
        data = bytearray(dice.choice(tables))
        for _ in range(dice.randint(1, 5)):
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        trouble = find_trouble(bytes(data))
        refused += trouble is not None
        deaths += trouble is not None and "brings down" in trouble
    print(f"{count:,} damaged tables: {refused:,} refused, of {deaths:,} polars died")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write every figure there too")
    parser.add_argument("--damaged", type=int, help="count instead what so many end in")
    asked = parser.parse_args()
    if asked.damaged:
        count_damaged(asked.damaged)
        return
    taken: dict[str, dict[str, list[tuple[float, float]]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        runs, cache = Path(folder, "runs"), Path(folder, "cache")
        make_runs(runs, asked.runs)
        for what, place in (("load_all", runs), ("show", runs / "run-0000")):
            figures = taken[what] = {"untried": [], "cold": [], "known": []}
            for _ in range(asked.rounds):
                for mode, seconds in figures.items():  # cold comes before known, and fills it
                    seconds.append(measure(mode, what, place, asked.runs, cache))
    for what, figures in taken.items():
        for at, clock in enumerate(("by the clock", "of cores")):
            medians = {
                mode: statistics.median(s[at] for s in each) for mode, each in figures.items()
            }
            base = medians["untried"]
            told = ", ".join(f"{m} {s:.3f} s ({s / base:.2f} x)" for m, s in medians.items())
            print(f"{what} of {asked.runs if what == 'load_all' else 1}, {clock}: {told}")
    if asked.json:
        asked.json.write_text(json.dumps(taken, indent=1) + "\n")


if __name__ == "__main__":
    main()
