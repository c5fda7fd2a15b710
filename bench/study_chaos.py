"""Kills driver, worker and sampler of a study at random, resumes it, and looks what is left.

    python bench/study_chaos.py --kills 100 --cells 60 --json FILE
    python bench/study_chaos.py --ray --kills 100 --cells 60 --json FILE

With --ray it runs on two Ray nodes on loopback, and a node that runs a cell is killed too: its
raylet first, then what is left of it; another one joins in its place. After the last kill the same
command runs to its end. Then exactly the planned cells must be there, each once, each run directory
readable, and the figures that do not depend on time must equal those of the same study undisturbed
on this machine. Exit status 1 where they do not, or where the study ended before all kills.
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
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import psutil

from study_ray import cluster
from trainload.api.loading import load
from trainload.api.studying import status
from trainload.errors import TrainloadError
from trainload.study.ledger import read_ledger

Driver = subprocess.Popen[bytes]
MARKS = {"worker": "trainload_worker", "sampler": "sampling.sampler"}
DOOR = "trainload.run"
PATIENCE_S = 20.0
"""How long a kill waits for its target to be there."""
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


class Place(Protocol):
    """Where the study runs."""

    targets: tuple[str, ...]
    words: tuple[str, ...]

    def processes(self, driver: Driver) -> list[psutil.Process]:
        """Those that run the study's cells now."""

    def kill_node(self, chance: random.Random) -> bool:
        """Kill a node that runs a cell; False where none does."""


class Here:
    """This machine: worker and sampler are children of the driver."""

    targets: tuple[str, ...] = ("driver", "worker", "sampler")
    words: tuple[str, ...] = ()

    def processes(self, driver: Driver) -> list[psutil.Process]:
        """The driver's children."""
        return list(psutil.Process(driver.pid).children())

    def kill_node(self, chance: random.Random) -> bool:  # noqa: ARG002 - there is none
        """There is none."""
        return False


class Nodes:
    """Two Ray nodes: worker and sampler descend from their raylets."""

    targets: tuple[str, ...] = ("driver", "worker", "sampler", "node")

    def __init__(self, joined: Any, nodes: list[Any]) -> None:
        self._cluster, self._nodes = joined, nodes
        self.words: tuple[str, ...] = ("--on", f"ray:{joined.address}")

    def processes(self, driver: Driver) -> list[psutil.Process]:  # noqa: ARG002 - not its own
        """All that descends from the raylets."""
        return [one for node in self._nodes for one in _below(node)]

    def kill_node(self, chance: random.Random) -> bool:
        """Kill one at work, and have another join."""
        busy = [node for node in self._nodes if any(map(_is_door, _below(node)))]
        if not busy:
            return False
        node = chance.choice(busy)
        os.kill(_raylet(node), signal.SIGKILL)
        self._cluster.remove_node(node, allow_graceful=False)
        self._nodes.remove(node)
        self._nodes.append(self._cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20))
        return True


def _raylet(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


def _below(node: Any) -> list[psutil.Process]:
    try:
        return list(psutil.Process(_raylet(node)).children(recursive=True))
    except psutil.Error:
        return []


def _is_door(process: psutil.Process) -> bool:
    return _says(process, DOOR)


def _says(process: psutil.Process, word: str) -> bool:
    try:
        return word in " ".join(process.cmdline())
    except psutil.Error:
        return False


@contextmanager
def two_nodes() -> Iterator[Nodes]:
    """A cluster of two on this machine."""
    with cluster({}, {}) as (joined, nodes):
        yield Nodes(joined, nodes)


def start(file: Path, out: Path, *words: str) -> Driver:
    """The command that begins or goes on with the study."""
    command = [sys.executable, "-m", "trainload", "study", "run", str(file), "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with (out / "driver.log").open("ab") as log:
        said = {"stdout": log, "stderr": log, "env": environment}
        return subprocess.Popen([*command, "--quiet", *words], **said)


def kill(driver: Driver, target: str, place: Place, chance: random.Random) -> bool:
    """Send SIGKILL to one process of the study; False where there is none such now."""
    if target == "node":
        return place.kill_node(chance)
    if target == "driver":
        if driver.poll() is not None:
            return False
        driver.kill()
        driver.wait()
        return True
    try:
        found = [one for one in place.processes(driver) if _says(one, MARKS[target])]
        if found:
            chance.choice(found).send_signal(signal.SIGKILL)
    except psutil.Error:
        return False
    return bool(found)


def disturb(
    file: Path,
    out: Path,
    kills: int,
    place: Place,
    targets: tuple[str, ...],
    chance: random.Random,
    most_s: float,
) -> dict[str, int]:
    """Run the study with so many kills; how many hit whom."""
    hits = dict.fromkeys(targets, 0)
    driver = start(file, out, *place.words)
    while sum(hits.values()) < kills:
        time.sleep(chance.uniform(0.05, most_s))
        if driver.poll() is not None:
            if driver.returncode == 0:
                break  # all cells are done before all kills were
            driver = start(file, out, *place.words)
            continue
        target = chance.choice(targets)
        # A driver is always there; the others must come up first to have their share.
        deadline_s = time.monotonic() + PATIENCE_S
        while not kill(driver, target, place, chance):
            if driver.poll() is not None or time.monotonic() > deadline_s:
                break
            time.sleep(chance.uniform(0.05, most_s / 2))
        else:
            hits[target] += 1
            print(f"{sum(hits.values())} kills, the last of a {target}", file=sys.stderr)
        if driver.poll() is not None:
            driver = start(file, out, *place.words)
    while driver.wait() != 0:
        driver = start(file, out, *place.words)
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
    place: Place | None = None,
    targets: tuple[str, ...] | None = None,
    seed: int = 0,
    most_s: float = 1.5,
    steps: int = 20,
) -> dict[str, Any]:
    """One disturbed study, one undisturbed on this machine, and what differs."""
    place = place or Here()
    calm, wild = scratch / "calm", scratch / "wild"
    for folder in (calm, wild):
        folder.mkdir(parents=True)
    file = write_study(scratch, cells, steps=steps)
    start_s = time.monotonic()
    assert start(file, calm).wait() == 0, (calm / "driver.log").read_text()
    calm_s = time.monotonic() - start_s
    start_s = time.monotonic()
    chance = random.Random(seed)
    hits = disturb(file, wild, kills, place, targets or place.targets, chance, most_s)
    said = complaints(wild / "chaos", calm / "chaos", cells)
    if sum(hits.values()) < kills:
        said.append(f"all cells were done after {sum(hits.values())} kills")
    return {
        "cells": cells,
        "place": "two Ray nodes" if place.words else "this machine",
        "kills": hits,
        "calm_s": calm_s,
        "wild_s": time.monotonic() - start_s,
        "runs": len(list((wild / "chaos" / "runs").iterdir())),
        "complaints": said,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=60)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most-s", type=float, default=1.5, help="longest wait before a kill")
    parser.add_argument("--steps", type=int, default=20, help="of 10 ms, of each run")
    parser.add_argument("--ray", action="store_true", help="on two Ray nodes, nodes killed too")
    parser.add_argument("--json", type=Path, help="write the results there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        found = trial(
            Path(scratch),
            cells=options.cells,
            kills=options.kills,
            place=stack.enter_context(two_nodes()) if options.ray else Here(),
            seed=options.seed,
            most_s=options.most_s,
            steps=options.steps,
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
