"""Kills driver, worker and sampler of a study at random, resumes it, and looks what is left.

    python bench/study_chaos.py --kills 100 --cells 60 --json FILE

After the last kill the same command runs to its end. Then exactly the planned cells must be there,
each once, each run directory readable, and the figures that do not depend on time must equal those
of the same study undisturbed. Exit status 1 where they do not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from trainload.api.loading import load
from trainload.api.studying import status
from trainload.errors import TrainloadError
from trainload.study.ledger import read_ledger

TARGETS = ("driver", "worker", "sampler")
MARKS = {"worker": "trainload_worker", "sampler": "sampling.sampler"}
STEADY = ("steps", "epochs", "parameters", "train_loss", "validation_loss", "validation_accuracy")
"""Figures that do not depend on time."""


def write_study(folder: Path, cells: int, name: str = "chaos", steps: int = 20) -> Path:
    """A study of so many quick cells; their runs take some steps of 10 ms."""
    path = folder / f"{name}.yaml"
    units = list(range(8, 8 + cells))
    path.write_text(
        f"name: {name}\nworkload:\n  model: mlp\n  framework: fake\n  epochs: 1\n"
        f"  max_steps: {steps}\n  frames_fraction: 0.02\n  check_overhead: false\n"
        "  batch_size: 64\n  fake: {step_s: 0.01}\n"
        f"cool_down: false\nother_load: false\nretries: 100\nuntrusted_repeats: 100\n"
        f"factors: {{hidden_units: {units}}}\n"
    )
    return path


def start(file: Path, out: Path) -> subprocess.Popen[bytes]:
    """The command that begins or goes on with the study."""
    command = [sys.executable, "-m", "trainload", "study", "run", str(file), "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with (out / "driver.log").open("ab") as log:
        return subprocess.Popen([*command, "--quiet"], stdout=log, stderr=log, env=environment)


def kill(driver: subprocess.Popen[bytes], target: str) -> bool:
    """Send SIGKILL to one process of the study; False where there is none such now."""
    if target == "driver":
        if driver.poll() is not None:
            return False
        driver.kill()
        driver.wait()
        return True
    try:
        children = psutil.Process(driver.pid).children()
        found = [c for c in children if MARKS[target] in " ".join(c.cmdline())]
        for child in found[:1]:
            child.send_signal(signal.SIGKILL)
            return True
    except psutil.Error:
        pass
    return False


def disturb(
    file: Path,
    out: Path,
    kills: int,
    targets: tuple[str, ...],
    chance: random.Random,
    most_s: float,
) -> dict[str, int]:
    """Run the study with so many kills; how many hit whom."""
    hits = dict.fromkeys(targets, 0)
    driver = start(file, out)
    while sum(hits.values()) < kills:
        time.sleep(chance.uniform(0.05, most_s))
        if driver.poll() is not None:
            if driver.returncode == 0:
                break  # all cells are done before all kills were
            driver = start(file, out)
            continue
        target = chance.choice(targets)
        hits[target] += kill(driver, target)
        if driver.poll() is not None:
            driver = start(file, out)
    while driver.wait() != 0:
        driver = start(file, out)
    return hits


def table(folder: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """The steady figures of each counted run by cell and repetition; complains of doubles."""
    ended, _, _ = read_ledger(folder)
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for entry in ended.values():
        if entry.verdict == "counted":
            place = entry.cell, entry.repetition
            assert place not in found, f"{place} is there twice"
            found[place] = {name: entry.figures.get(name) for name in STEADY}
    return found


def complaints(folder: Path, plain: Path, cells: int) -> list[str]:
    """What is not as it must be in the disturbed study."""
    said = []
    found = status(folder)
    if (found.planned, found.done, found.failed, found.left) != (cells, cells, 0, 0):
        said.append(f"{found.done} of {found.planned} done, {found.failed} failed; {cells} planned")
    try:
        if table(folder) != table(plain):
            said.append("the tables differ from those of the undisturbed study")
    except AssertionError as error:
        said.append(str(error))
    for path in sorted((folder / "runs").iterdir()):
        try:
            if load(path).outcome is None:
                said.append(f"{path.name} has no outcome")
        except TrainloadError as error:
            said.append(f"{path.name} cannot be read: {error}")
    return said


def trial(
    scratch: Path,
    *,
    cells: int,
    kills: int,
    targets: tuple[str, ...] = TARGETS,
    seed: int = 0,
    most_s: float = 1.5,
    steps: int = 20,
) -> dict[str, Any]:
    """One disturbed and one undisturbed study, and what differs."""
    calm, wild = scratch / "calm", scratch / "wild"
    for folder in (calm, wild):
        folder.mkdir(parents=True)
    file = write_study(scratch, cells, steps=steps)
    start_s = time.monotonic()
    assert start(file, calm).wait() == 0, (calm / "driver.log").read_text()
    calm_s = time.monotonic() - start_s
    start_s = time.monotonic()
    hits = disturb(file, wild, kills, targets, random.Random(seed), most_s)
    return {
        "cells": cells,
        "kills": hits,
        "calm_s": calm_s,
        "wild_s": time.monotonic() - start_s,
        "runs": len(list((wild / "chaos" / "runs").iterdir())),
        "complaints": complaints(wild / "chaos", calm / "chaos", cells),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=60)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most-s", type=float, default=1.5, help="longest wait before a kill")
    parser.add_argument("--json", type=Path, help="write the results there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = trial(
            Path(scratch),
            cells=options.cells,
            kills=options.kills,
            seed=options.seed,
            most_s=options.most_s,
        )
    found["command"] = shlex.join(["python", *sys.argv])
    print(
        f"{found['cells']} cells, kills {found['kills']}: {found['runs']} runs in "
        f"{found['wild_s']:.0f} s ({found['calm_s']:.0f} s undisturbed)"
    )
    for line in found["complaints"] or ["exactly the planned cells, none twice, none lost"]:
        print(f"  {line}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return int(bool(found["complaints"]))


if __name__ == "__main__":
    sys.exit(main())
