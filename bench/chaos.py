"""Everything hostile at once: mutated directories, hostile scripts, kills, fuzzed options.

    python bench/chaos.py --minutes 10 [--part scripts --part kills] [--seed 1]

Each part in `chaos_parts/` gets an equal share of the time and prints its counts as soon as it has
ended. Exit status 1 where anything that must be 0 is not.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from chaos_parts.tally import Tally, render_table

PARTS = ("options", "mutations", "kills", "scripts")
"""Modules of `chaos_parts`, each with `run(minutes: float, seed: int) -> Tally`."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="for all parts together")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one; repeatable")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the counts there too")
    options = parser.parse_args()
    chosen = options.part or PARTS
    tallies = []
    for name in chosen:
        start_s = time.monotonic()
        tally: Tally = importlib.import_module(f"chaos_parts.{name}").run(
            options.minutes / len(chosen), options.seed
        )
        tallies.append(tally)
        print(render_table([tally]), f"  {time.monotonic() - start_s:.0f} s", sep="\n", flush=True)
    print("\nin all", render_table(tallies), sep="\n")
    if options.json:
        options.json.write_text(json.dumps([asdict(tally) for tally in tallies], indent=1) + "\n")
    sys.exit(any(tally.broken for tally in tallies))


if __name__ == "__main__":
    main()
