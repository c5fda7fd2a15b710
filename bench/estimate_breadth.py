"""How many models of others `trainload.estimate` can trace, and what it says of those it cannot.

    PYTHONPATH=src PYTHON bench/estimate_breadth.py --json FILE [--only REGEX] [--at-once 2]

PYTHON has torch, torchvision, timm, transformers, diffusers and scipy; no GPU is needed. The
libraries are imported once. Each model is then built in a fork of this process, with random
weights, and estimated there by the public function, for a step of batch 4 on an RTX 3090. Prints
by library how many were tried, traced, traced as an upper bound (sizes in the step depend on
numbers) and refused, then each refusal with its line. Exit status 0 whatever is refused.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import trainload
from trainload.errors import TrainloadError

LIBRARIES = {
    "torchvision": ("vision",),
    "timm": ("timm_models",),
    "transformers": ("language", "perception"),
    "diffusers": ("diffusion",),
    "own modules": ("own_sequences", "own_sizes", "own_training", "own_operators"),
}
"""Library -> modules of `breadth`, each with `MODELS`."""
BATCH, DEVICE = 4, "rtx-3090"
COUNTS = ("tried", "traced", "at most", "refused")

Row = dict[str, Any]


def main() -> None:
    """Try every model; print the counts and the refusals."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--json", type=Path, metavar="FILE")
    words.add_argument("--only", default="", metavar="REGEX", help="of `library/model`")
    words.add_argument("--at-once", type=int, default=2)
    words.add_argument("--limit-s", type=float, default=90.0, help="for the trace of one step")
    chosen = words.parse_args()
    builds = {
        (library, name): build
        for library, modules in LIBRARIES.items()
        for module in modules
        for name, build in import_module(f"breadth.{module}").MODELS.items()
        if re.search(chosen.only, f"{library}/{name}")
    }
    rows = sorted(_try_all(builds, chosen), key=lambda row: list(builds).index(_key(row)))
    counts = {library: _count(rows, library) for library in LIBRARIES}
    print(render_counts(counts))
    for row in rows:
        if row["refused"] is not None:
            print(f"{row['library']}/{row['model']}: {row['refused']}")
    described = {
        "command": " ".join(["bench/estimate_breadth.py", *sys.argv[1:]]),
        "versions": {name: version(name) for name in ("torch", *list(LIBRARIES)[:-1])},
        "batch": BATCH,
        "device": DEVICE,
        "counts": counts,
        "models": rows,
    }
    if chosen.json:
        chosen.json.write_text(json.dumps(described, indent=1) + "\n")


def _try_all(builds: dict[tuple[str, str], Any], chosen: argparse.Namespace) -> Iterator[Row]:
    """A row for each model as its fork ends, several forks at once."""
    left, running = list(builds), {}
    with tempfile.TemporaryDirectory() as folder:
        while left or running:
            while left and len(running) < chosen.at_once:
                key = left.pop(0)
                path = Path(folder) / str(len(left))
                # Forked before any thread computes: torch's threads do not come along.
                pid = os.fork()
                if pid == 0:
                    _try_and_exit(key, builds[key], path, chosen.limit_s)
                running[pid] = (key, path)
            pid, status = os.waitpid(-1, 0)
            (library, name), path = running.pop(pid)
            row = {"library": library, "model": name, "refused": f"the process ended: {status}"}
            if path.exists():
                row = json.loads(path.read_text())
            print(f"{library}/{name}: {row['refused'] or 'traced'}", file=sys.stderr, flush=True)
            yield row


def _try_and_exit(key: tuple[str, str], build: Any, path: Path, limit_s: float) -> None:
    """The life of a fork: one model, one row in a file."""
    try:
        torch.set_num_threads(1)
        row = dict(zip(("library", "model"), key, strict=True)) | estimate_one(build, limit_s)
        path.write_text(json.dumps(row))
    except BaseException:  # noqa: BLE001 - the parent goes on with the next model
        traceback.print_exc()
    finally:
        os._exit(0)


def estimate_one(build: Any, limit_s: float) -> Row:
    """What the estimate of a model says; `refused` is its line where it cannot be traced."""
    row: Row = {"refused": None, "at_most": None, "allocated_bytes": None, "notes": []}
    start_s = time.monotonic()
    try:
        module, loss = build(BATCH)
    except Exception as error:  # noqa: BLE001 - what the library raises is the answer
        return row | {"refused": f"not built: {type(error).__name__}: {error}"}
    built_s = time.monotonic()
    try:
        found = trainload.estimate(
            module, loss=loss, batch_size=BATCH, device=DEVICE, what_if=False, limit_s=limit_s
        )
    except TrainloadError as error:
        row["refused"] = str(error)
    else:
        row["notes"] = list(found.memory.notes)
        row["refused"] = found.memory.missing
        if found.memory.estimate is not None:
            row["at_most"] = found.memory.estimate.at_most
            row["allocated_bytes"] = found.memory.estimate.allocated_bytes.value_bytes
    ended_s = time.monotonic()
    return row | {"build_s": round(built_s - start_s, 2), "estimate_s": round(ended_s - built_s, 2)}


def _key(row: Row) -> tuple[str, str]:
    return row["library"], row["model"]


def _count(rows: list[Row], library: str) -> dict[str, int]:
    own = [row for row in rows if row["library"] == library]
    refused = sum(row["refused"] is not None for row in own)
    at_most = sum(bool(row.get("at_most")) for row in own)
    found = (len(own), len(own) - refused, at_most, refused)
    return dict(zip(COUNTS, found, strict=True))


def render_counts(counts: dict[str, dict[str, int]]) -> str:
    """A line for each library and one for all; `at most` are among the traced."""
    lines = [f"{'':14}" + "".join(f"{name:>9}" for name in COUNTS)]
    total = {name: sum(one[name] for one in counts.values()) for name in COUNTS}
    for library, found in {**counts, "all": total}.items():
        lines.append(f"{library:14}" + "".join(f"{found[name]:9}" for name in COUNTS))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
