"""Everything hostile at once: mutated directories, hostile scripts, kills, fuzzed options.

    python bench/chaos.py --minutes 10 [--part scripts --part kills] [--seed 1]
    python bench/chaos.py --full          20,000 directories, 200 kills, all scripts, 10^5 options

Each part in `chaos_parts/` gets an equal share of the time, or with --full as long as its count
takes, and prints its counts as soon as it has ended. Exit status 1 where anything that must be 0 is
not, or where a count of --full was not reached.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
import time
from dataclasses import asdict
from pathlib import Path

from chaos_parts.scripts import count_scripts
from chaos_parts.tally import Tally, render_table

PARTS = ("options", "mutations", "kills", "scripts")
"""Modules of `chaos_parts`, each with `run(minutes, seed, count) -> Tally`."""
FULL = {"options": 100_000, "mutations": 20_000, "kills": 200, "scripts": 2 * count_scripts()}
"""Trials of each part with --full; each script is tried in two ways."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--minutes", type=float, default=10.0, help="for all parts together")
    counts = ", ".join(f"{count:,} {name}" for name, count in FULL.items())
    size.add_argument("--full", action="store_true", help=f"by counts, however long: {counts}")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one; repeatable")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the counts there too")
    options = parser.parse_args()
    chosen = options.part or PARTS
    tallies = []
    for name in chosen:
        start_s = time.monotonic()
        minutes = math.inf if options.full else options.minutes / len(chosen)
        count = FULL[name] if options.full else None
        part = importlib.import_module(f"chaos_parts.{name}")
        tally: Tally = part.run(minutes, options.seed, count)
        tallies.append(tally)
        print(render_table([tally]), f"  {time.monotonic() - start_s:.0f} s", sep="\n", flush=True)
    print("\nin all", render_table(tallies), sep="\n")
    if options.json:
        options.json.write_text(json.dumps([asdict(tally) for tally in tallies], indent=1) + "\n")
    short = [t.part for t in tallies if options.full and t.trials < FULL[t.part]]
    if short:
        print(f"too few trials: {', '.join(short)}")
    sys.exit(bool(short) or any(tally.broken for tally in tallies))


if __name__ == "__main__":
    main()
