"""What cells will take before they run: seconds, bytes on disk, and whether memory can hold them.

Rough until a run has been measured: FLOPs and layers of the graph by a processor's usual pace.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainload.estimate.counts.step import estimate_step
from trainload.hardware import Machine
from trainload.run import RunRequest
from trainload.study.cells import Cell
from trainload.study.checking import request_of
from trainload.workload import Workload

START_S: Mapping[str, float] = {
    "fake": 0.4,
    "torch": 3.0,
    "tensorflow": 6.0,
    "jax": 4.0,
    "mxnet": 3.0,
}
"""Seconds until the first step: the imports of each framework on a processor of 2020 or later."""
CORE_FLOP_PER_S = 20e9
"""What a core reaches in training: a fifth of eight float32 multiply-adds a cycle at 3 GHz."""
GPU_FLOP_PER_S = 10e12
LAYER_S = 40e-6
"""What starting one layer's forward, backward and update takes at least."""
MOST_STEPS = 1024
"""Counted steps that are remembered for cells that share them."""
RUN_BYTES, SECOND_BYTES = 60_000, 2_000
"""Of a run directory, and of each second at ten samples a second, sealed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CostEstimate:
    """One run of a cell, worked out beforehand; None where only the script knows."""

    seconds: float | None
    disk_bytes: int | None
    memory_bytes: int | None
    """The least memory that its step needs."""
    capacity_bytes: int | None
    """The memory there is: of the accelerator, or of the machine."""

    @property
    def fits(self) -> bool | None:
        """False where the least it needs is more than there is; None: not known, it may fit."""
        if self.memory_bytes is None or self.capacity_bytes is None:
            return None
        return False if self.memory_bytes > self.capacity_bytes else None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Step:
    """What is kept of a step's counts: there may be thousands."""

    layers: int
    flop: int
    memory_bytes: int


class CostEstimator:
    """Estimates cells; graphs that cells share are counted once."""

    def __init__(self, machine: Machine, *, elsewhere: bool = False) -> None:
        self._machine = machine
        self._elsewhere = elsewhere
        self._steps: dict[str, _Step] = {}

    def estimate(self, cell: Cell) -> CostEstimate:
        """What one run of the cell will take."""
        values = cell.values
        request = request_of(values, self._machine, elsewhere=self._elsewhere)
        if not isinstance(request.workload, Workload):
            return CostEstimate(
                seconds=None, disk_bytes=None, memory_bytes=None, capacity_bytes=None
            )
        step = self._step(request.workload)
        seconds = _seconds(request, request.workload, step, values)
        return CostEstimate(
            seconds=seconds,
            disk_bytes=round(RUN_BYTES + SECOND_BYTES * seconds * request.rate_hz / 10),
            memory_bytes=step.memory_bytes,
            capacity_bytes=None if self._elsewhere else _capacity_bytes(request),
        )

    def _step(self, workload: Workload) -> _Step:
        training = workload.training
        mark = json.dumps(
            [
                workload.model,
                workload.model_options,
                training.batch_size,
                training.precision,
                training.optimizer.name,
            ],
            sort_keys=True,
            default=str,
        )
        if mark not in self._steps:
            if len(self._steps) >= MOST_STEPS:
                self._steps.clear()
            found = estimate_step(
                workload.graph,
                batch_size=training.batch_size,
                precision=training.precision,
                optimizer=training.optimizer,
            )
            self._steps[mark] = _Step(
                layers=len(found.layers),
                flop=round(found.total("flop")),
                memory_bytes=found.fullest_bytes,
            )
        return self._steps[mark]


def _seconds(
    request: RunRequest, workload: Workload, step: _Step, values: Mapping[str, Any]
) -> float:
    start_s = START_S.get(request.framework, 4.0)
    training, rows = workload.training, getattr(workload.data, "rows", None) or 0
    share = getattr(workload.data, "validation_fraction", None) or 0.2
    per_epoch = -(-int(rows * (1 - share)) // training.batch_size)
    steps = per_epoch * training.epochs
    if training.max_steps is not None:
        steps = min(steps, training.max_steps) if steps else training.max_steps
    if request.framework == "fake":
        options = values.get("fake", {})
        return start_s + steps * float(options.get("step_s", 0.002))
    setting = request.setting
    speed = CORE_FLOP_PER_S * min(len(setting.cores), setting.threads)
    if setting.accelerators:
        speed = GPU_FLOP_PER_S
    step_s = step.layers * LAYER_S + step.flop / speed
    validations = {"epoch": training.epochs, "end": 1, "never": 0}[training.validate]
    # A forward pass is a third of a step.
    validation_s = validations * (rows * share / training.batch_size) * step_s / 3
    return start_s + steps * step_s + validation_s


def _capacity_bytes(request: RunRequest) -> int | None:
    accelerators = request.setting.accelerators
    if accelerators:
        return accelerators[0].memory_bytes
    limits = (request.machine.memory_total_bytes, request.machine.memory_limit_bytes)
    return min((one for one in limits if one is not None), default=None)
