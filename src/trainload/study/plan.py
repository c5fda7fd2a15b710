"""The plan of a study: its cells, what each will take, which cannot fit, in which order they run.

Works it out and runs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainload.hardware import read_machine
from trainload.study.cells import Cell
from trainload.study.checking import Absent, check_cells
from trainload.study.costs import CostEstimate, CostEstimator
from trainload.study.design import design_cells
from trainload.study.file import StudyFile
from trainload.study.ledger import read_ledger
from trainload.study.schedule import order_block
from trainload.study.state import StudyState
from trainload.study.stopping import choose_stopping, least_repetitions


@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """A study before it runs, or before it goes on."""

    study: StudyFile
    cells: tuple[Cell, ...]
    """Those that will be run, in the order of the file."""
    costs: Mapping[str, CostEstimate]
    """By a cell's identity: one run of it."""
    absent: tuple[Absent, ...]
    """Left out: this machine does not have what they need."""
    unfit: tuple[Cell, ...]
    """Those that surely need more memory than there is; run all the same unless the file skips
    them."""
    least: int
    most: int
    """Repetitions of each cell."""
    measured_s: float | None = None
    """Mean length of the runs of this study so far."""
    energy_j: float | None = None
    """Mean energy of the runs so far; None where none was measured."""
    settled: int = 0
    """Runs of these cells that count already."""

    @property
    def runs(self) -> int:
        """Runs that count, at least."""
        return len(self.cells) * self.least

    @property
    def seconds(self) -> float | None:
        """What is left, one after the other; by what was measured where something was."""
        left = max(0, self.runs - self.settled)
        if self.measured_s is not None:
            return left * self.measured_s
        known = [self.costs[cell.identity].seconds for cell in self.cells]
        told = [one for one in known if one is not None]
        return sum(told) * self.least if len(told) == len(known) else None

    @property
    def disk_bytes(self) -> int | None:
        """What the run directories will take; None where only a script knows."""
        known = [self.costs[cell.identity].disk_bytes for cell in self.cells]
        told = [one for one in known if one is not None]
        return sum(told) * self.least if len(told) == len(known) else None

    @property
    def total_energy_j(self) -> float | None:
        """What is left at the mean energy of the runs so far; None before one was measured."""
        left = max(0, self.runs - self.settled)
        return None if self.energy_j is None else left * self.energy_j

    def order(self) -> list[Cell]:
        """The cells of the first block as they will run."""
        return order_block(self.study, self.cells, 0)

    def to_json(self) -> dict[str, Any]:
        """The document of `study plan --json`."""
        return {
            "name": self.study.name,
            "cells": [
                {
                    "cell": cell.identity,
                    "factors": dict(cell.factors),
                    "values": dict(cell.values),
                    "seconds": self.costs[cell.identity].seconds,
                    "disk_bytes": self.costs[cell.identity].disk_bytes,
                    "memory_bytes": self.costs[cell.identity].memory_bytes,
                    "fits": self.costs[cell.identity].fits,
                }
                for cell in self.order()
            ],
            "absent": [
                {"factors": dict(one.cell.factors), "reason": one.reason} for one in self.absent
            ],
            "repetitions": [self.least, self.most],
            "runs": self.runs,
            "settled": self.settled,
            "seconds": self.seconds,
            "disk_bytes": self.disk_bytes,
            "energy_j": self.total_energy_j,
        }


def plan_study(study: StudyFile, out: Path | None = None, *, elsewhere: bool = False) -> StudyPlan:
    """The plan of a study; what it has measured so far in `out` mends the estimates.

    `elsewhere` other machines will run it: nothing is left out for what this one lacks.

    StudyError names file, line and key of what cannot be.
    """
    machine = read_machine()
    cells, absent = check_cells(study, design_cells(study), machine, elsewhere=elsewhere)
    estimator = CostEstimator(machine, elsewhere=elsewhere)
    costs = {cell.identity: estimator.estimate(cell) for cell in cells}
    unfit = tuple(cell for cell in cells if costs[cell.identity].fits is False)
    if study.keys.unfit == "skip":
        cells = [cell for cell in cells if costs[cell.identity].fits is not False]
    stopping = choose_stopping(study.keys)
    state = StudyState(study.keys, stopping.metric)
    if out is not None:
        ended, refused, _ = read_ledger(out / study.name, state.figures)
        mine = {cell.identity for cell in cells}
        state.take(one for one in (*refused, *ended.values()) if one.cell in mine)
    measured = state.energy_j is not None and state.timed_runs > 0
    return StudyPlan(
        study=study,
        cells=tuple(cells),
        costs=costs,
        absent=tuple(absent),
        unfit=unfit,
        least=least_repetitions(study.keys),
        most=stopping.most,
        measured_s=state.mean_run_s,
        energy_j=(state.energy_j or 0.0) / state.timed_runs if measured else None,
        settled=sum(state.counts().values()),
    )
