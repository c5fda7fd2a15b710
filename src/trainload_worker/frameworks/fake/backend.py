"""A backend that trains nothing and misbehaves on request, for tests; imports no framework.

Options of the specification's `fake` object, all optional; a step is numbered over the whole run:

    step_s                  duration of a step, 0.002 s unless told
    input_s                 how long each step waits for its rows, 0 s unless told
    busy                    burn the processor for that long instead of sleeping
    crash_at_step           raise RuntimeError
    segfault_at_step        die of a real SIGSEGV
    hang_at_step            never finish that step; SIGTERM ends it unless `stubborn`
    stubborn                a hanging step ignores SIGTERM and SIGINT
    exhaust_memory_at_step  allocate until a real MemoryError, below a limit set just above the use
    nan_at_step             a loss that is not a number
    print_garbage           print bytes that are no UTF-8, control characters and endless lines
"""

from __future__ import annotations

import math
import os
import resource
import signal
import time
from array import array
from typing import Any, Mapping, Sequence

from trainload_worker.data.dataset import Dataset
from trainload_worker.data.split import Split
from trainload_worker.frameworks.backends import Evaluation, LayerSummary, Opened, StepBatch
from trainload_worker.frameworks.fake.state import FakeState
from trainload_worker.protocol.graph import LayerSpec
from trainload_worker.protocol.spec import TrainSpec
from trainload_worker.training.feed import Feed

VERSION = "1.0"

_GARBAGE = b"\xff\xfe\x00\x1b[31m\x07\r" + b"x" * 20000 + b"\xc3(\n"
_HEADROOM_BYTES = 64 << 20
_BLOCK_BYTES = 4 << 20


def create(spec: TrainSpec) -> FakeBackend:
    """The backend for that specification."""
    return FakeBackend(spec)


class FakeBackend:
    """Counts steps, waits, and reports losses that fall."""

    def __init__(self, spec: TrainSpec) -> None:
        self._spec = spec
        self._options: Mapping[str, Any] = spec.fake
        self._step_s = float(spec.fake.get("step_s", 0.002))
        self._step = 0
        self._end_s: list[float] = []
        self._loss: list[float | None] = []
        self._truth: Sequence[int] = ()
        self._class_count = 0
        self.state = FakeState(spec, self._count_from)
        self.feed = Feed(self._take)

    def open(self) -> Opened:
        """Promises the threads asked for and the CPU; there is nothing to check."""
        notes = ["the fake backend trains nothing"]
        if self._spec.setting.accelerators:
            notes.append("the fake backend uses no accelerator")
        return Opened(
            version=VERSION,
            software={},
            device="cpu",
            threads=self._spec.setting.threads,
            accelerators=(),
            notes=notes,
        )

    def build(self, dataset: Dataset, split: Split) -> list[LayerSummary]:
        """Counts the parameters that a real framework would make."""
        # A stream has no labels, and its vocabulary would make a matrix of 100 million cells.
        labels = dataset.labels if dataset.classes else array("q", [0]) * dataset.row_count
        self._truth = [labels[row] for row in split.validation_rows]
        self._class_count = max(1, len(dataset.classes))
        shapes = {layer.name: layer.output_shape for layer in self._spec.graph.layers}
        return [
            LayerSummary(layer.name, _count_parameters(layer, shapes))
            for layer in self._spec.graph.layers
        ]

    def run_step(self, rows: array[int]) -> None:
        """Waits for a step's time and does the mischief asked for."""
        self._misbehave()
        self.feed.take(rows)
        if self._options.get("busy"):
            until_s = time.monotonic() + self._step_s
            while time.monotonic() < until_s:
                pass
        else:
            time.sleep(self._step_s)
        loss = 0.1 + 2.2 * math.exp(-self._step / 50) + 1e-5 * len(rows)
        if self._is_due("nan_at_step"):
            loss = math.nan
        self._end_s.append(time.monotonic())
        self._loss.append(loss)
        self._step += 1

    def collect(self, drain: bool) -> StepBatch:  # noqa: ARG002 - a fake step is never under way
        """All steps since the last call."""
        batch = StepBatch(self._end_s, self._loss)
        self._end_s, self._loss = [], []
        return batch

    def evaluate(self) -> Evaluation:
        """A confusion matrix whose accuracy grows with the steps run."""
        confusion = [[0] * self._class_count for _ in range(self._class_count)]
        misses = 2 + self._step // 10
        for index, truth in enumerate(self._truth):
            missed = index % misses == 0
            confusion[truth][(truth + missed) % self._class_count] += 1
        loss = 0.2 + 2.1 * math.exp(-self._step / 50)
        return Evaluation(confusion, loss * len(self._truth), len(self._truth))

    def _take(self, rows: array[int]) -> tuple[None, None]:  # noqa: ARG002 - there are none
        time.sleep(float(self._options.get("input_s", 0.0)))
        return None, None

    def _count_from(self, steps: int) -> None:
        self._step = steps

    def _is_due(self, option: str) -> bool:
        return bool(self._options.get(option) == self._step)

    def _misbehave(self) -> None:
        if self._options.get("print_garbage"):
            _print_garbage()
        if self._is_due("crash_at_step"):
            raise RuntimeError(f"the fake backend crashed at step {self._step}, as asked")
        if self._is_due("segfault_at_step"):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.kill(os.getpid(), signal.SIGSEGV)
        if self._is_due("exhaust_memory_at_step"):
            _exhaust_memory()
        if self._is_due("hang_at_step"):
            _hang(bool(self._options.get("stubborn")))


def _count_parameters(layer: LayerSpec, shapes: Mapping[str, Sequence[int]]) -> int:
    if layer.kind != "linear":
        return 0
    units = int(layer.attributes["units"])
    bias = units if layer.attributes.get("bias", True) else 0
    return int(shapes[layer.inputs[0]][-1]) * units + bias


def _print_garbage() -> None:
    try:
        os.write(1, _GARBAGE)
    except OSError:
        pass  # a reader that went away is none of the training's business


def _exhaust_memory() -> None:
    """Fills the address space up to a limit of its own, so that the machine is not in danger."""
    with open("/proc/self/statm", encoding="ascii") as file:
        used_bytes = int(file.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used_bytes + _HEADROOM_BYTES, hard))
    blocks = []
    while True:
        blocks.append(bytearray(_BLOCK_BYTES))


def _hang(stubborn: bool) -> None:
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent_pid = os.getppid()
    while True:
        time.sleep(0.05)
        # Even a stubborn worker must not outlive a broken test.
        if os.getppid() != parent_pid and stubborn:
            os._exit(1)
