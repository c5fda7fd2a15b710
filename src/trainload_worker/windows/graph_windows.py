"""Explains steps of a layer graph by layer: opens a framework's tracer when due, labels afterwards.

Knows no framework. Never raises into the training: whatever goes wrong in the tracer ends the
windows, and is recorded; what goes wrong in the backend is the training's to tell.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from array import array
from dataclasses import dataclass
from typing import Any, Callable, Protocol, Sequence

from trainload_worker.data.dataset import Dataset
from trainload_worker.data.split import Split
from trainload_worker.frameworks.backends import (
    Backend,
    Evaluation,
    LayerSummary,
    Opened,
    StepBatch,
)
from trainload_worker.process.allocator import hold_thresholds
from trainload_worker.process.events import EventWriter
from trainload_worker.protocol.spec import LayersSpec, TrainSpec
from trainload_worker.protocol.windows import LayersFailed, ModuleTable, WindowSaved
from trainload_worker.windows.asked import AskedWindow
from trainload_worker.windows.plan import FIRST_STEPS, WindowPlan, WindowShape

PURPOSES = ("time",)
"""Only torch's windows watch memory too."""
_PARAMETER_BYTES = 4
"""Of float32, in which every framework keeps its parameters here."""


class Tracer(Protocol):
    """A framework's profiler, one window at a time, and the reading of what it wrote."""

    def open(self, folder: str) -> None:
        """Starts the profiler; its scratch files belong under that folder, new for each window."""

    def mark(self, step: int) -> None:
        """Notes that a step has ended: nothing is under way.

        The first mark of a window is of the step before it. A number that comes twice has
        something else between its marks, such as a validation, which belongs to no step.
        """

    def close(self) -> None:
        """Stops the profiler and keeps the raw profile; in the training's time, so cheap."""

    def label(self, path: str) -> int:
        """Turns the oldest profile kept into a window of labelled events at `path`; its bytes.

        After the training; `labelled_events` writes the file. The profile is kept no longer, even
        where this fails.
        """


class TracedBackend(Backend, Protocol):
    """A backend whose framework can be traced."""

    def make_tracer(self) -> Tracer:
        """The tracer of the model that was built; called once, before the first window."""


@dataclass
class _Window:
    """A window from its opening on."""

    index: int
    shape: WindowShape
    opened_s: float
    first_traced: int
    last_done: int = -1
    paused_s: float = 0.0
    end_s: float = 0.0
    cost_s: float = 0.0
    usual_s: float | None = None
    """Time of an untraced step before it."""
    paused_before_s: float = 0.0
    """All the time the training had paused for, when it closed."""

    @property
    def first_step(self) -> int:
        """The first step to use."""
        return self.first_traced + self.shape.warm_steps

    @property
    def usable(self) -> bool:
        """Whether it holds a whole step to use."""
        return self.last_done >= self.first_step

    @property
    def whole(self) -> bool:
        """Whether it holds all the steps it was opened for."""
        return self.last_done >= self.first_step + self.shape.steps - 1


class LayerWindows:
    """A backend like the one it wraps, some of whose steps, numbered from 0, are traced."""

    def __init__(
        self,
        backend: TracedBackend,
        spec: TrainSpec,
        layers: LayersSpec,
        summaries: Sequence[LayerSummary],
        events: EventWriter,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backend, self._events, self._clock = backend, events, clock
        self._layers = layers
        self._device = "cuda:0" if spec.setting.accelerators else "cpu"
        self._modules = module_table(spec, summaries)
        asked = None if layers.ask is None else AskedWindow(layers.ask)
        self._plan = WindowPlan(layers.budget, PURPOSES, asked=asked)
        self._tracer: Tracer | None = None
        self._scratch: str | None = None
        self._step = -1
        self._due: WindowShape | None = None
        self._window: _Window | None = None
        self._kept: list[_Window] = []
        self._after: _Window | None = None
        self._held = StepBatch([], [])
        self._error: Exception | None = None
        self._paused_at_s: float | None = None
        self._paused_s = 0.0
        self._off = False

    def attach(self) -> None:
        """Nothing to begin: the training calls what it wraps."""

    def __getattr__(self, name: str) -> Any:
        # What a backend can do beside training, such as saving, is none of this one's business.
        return getattr(self._backend, name)

    def open(self) -> Opened:
        """As the backend does."""
        return self._backend.open()

    def build(self, dataset: Dataset, split: Split) -> list[LayerSummary]:
        """As the backend does."""
        return self._backend.build(dataset, split)

    def run_step(self, rows: array[int]) -> None:
        """Trains on those rows; a traced step has ended when this returns."""
        self._resume()
        self._backend.run_step(rows)
        self._step += 1
        if self._off:
            return
        if self._window is None:
            # Steps may end long after they are given out; the first window waits for none of them.
            self._take(self._backend.collect(self._step + 1 == FIRST_STEPS))
            if self._due is not None:
                self._take(self._backend.collect(True))
                self._follow(self._open, self._due)
        else:
            self._take(self._backend.collect(True))
            self._follow(self._trace, self._window)

    def collect(self, drain: bool) -> StepBatch:
        """Steps that ended since the last call, whoever waited for them."""
        if self._error is not None:
            raise self._error
        try:
            self._take(self._backend.collect(drain))
        except Exception as error:
            if not self._held.end_s:
                raise
            # What ended before is told first; the error comes with the next call.
            self._error = error
        if drain:
            self._pause()
        held, self._held = self._held, StepBatch([], [])
        return held

    def evaluate(self) -> Evaluation:
        """As the backend does."""
        return self._backend.evaluate()

    def _pause(self) -> None:
        """The training waits for its last step and will do something else than train."""
        if self._window is not None and self._window.usable:
            self._follow(self._close, self._window)
        self._paused_at_s = self._clock()

    def _resume(self) -> None:
        if self._paused_at_s is None:
            return
        pause_s, self._paused_at_s = self._clock() - self._paused_at_s, None
        self._paused_s += pause_s
        if self._window is not None:
            self._window.paused_s += pause_s
            self._follow(self._mark)

    def finish(self) -> None:
        """Ends the windows and labels those kept; after the training, however it ended."""
        try:
            window, self._window = self._window, None
            if window is not None:
                self._follow(self._close if window.usable else self._drop, window)
            self._off = True
            while self._kept:
                self._label(self._kept.pop(0))
        finally:
            if self._scratch is not None:
                shutil.rmtree(self._scratch, ignore_errors=True)

    def _follow(self, work: Callable[..., object], *arguments: Any) -> None:
        """The work, whose errors end the windows and not the training."""
        if self._off:
            return
        try:
            work(*arguments)
        except Exception as error:  # noqa: BLE001 - the training comes first
            self._give_up(f"{type(error).__name__}: {error}")

    def _take(self, batch: StepBatch) -> None:
        """Holds finished steps until they are asked for; untraced ones count for the plan."""
        self._held.end_s.extend(batch.end_s)
        self._held.loss.extend(batch.loss)
        if self._window is None and not self._off:
            if self._after is not None and batch.end_s:
                self._charge(self._after, batch.end_s[0])
            for end_s in batch.end_s:
                # Validating and saving are no part of any step.
                self._due = self._plan.count_step(end_s - self._paused_s) or self._due

    def _charge(self, window: _Window, end_s: float) -> None:
        """The step after a window pays for it too: a framework may have to prepare itself anew."""
        self._after = None
        if window.usual_s is not None:
            waited_s = self._paused_s - window.paused_before_s
            longer_s = end_s - window.end_s - waited_s - window.usual_s
            window.cost_s += self._plan.add_cost(longer_s)

    def _open(self, shape: WindowShape) -> None:
        self._due = None
        if self._tracer is None:
            self._tracer = self._backend.make_tracer()
        if self._scratch is None:
            self._scratch = tempfile.mkdtemp(prefix=".windows-", dir=self._layers.folder)
        index = self._plan.windows
        folder = os.path.join(self._scratch, str(index))
        os.mkdir(folder)
        # From here on even a tracer that fails has cost something.
        self._window = _Window(index, shape, self._clock(), self._step + 1)
        hold_thresholds()
        self._tracer.open(folder)
        self._mark()

    def _mark(self) -> None:
        assert self._tracer is not None
        self._tracer.mark(self._step)

    def _trace(self, window: _Window) -> None:
        self._mark()
        window.last_done = self._step
        if window.whole:
            self._close(window)

    def _close(self, window: _Window) -> None:
        self._window = None
        self._stop_tracer()
        if not self._kept:
            self._events.write(ModuleTable(tuple(self._modules)))
        window.end_s = self._clock()
        window.usual_s, window.paused_before_s = self._plan.step_s, self._paused_s
        assert self._scratch is not None
        window.cost_s = self._plan.note_window(
            window.opened_s + window.paused_s - self._paused_s,
            window.end_s - self._paused_s,
            window.last_done - window.first_traced + 1,
            folder_bytes(os.path.join(self._scratch, str(window.index))),
        )
        self._kept.append(window)
        self._after = window

    def _drop(self, _window: _Window) -> None:
        self._stop_tracer()

    def _stop_tracer(self) -> None:
        assert self._tracer is not None
        self._tracer.close()

    def _label(self, window: _Window) -> None:
        name = self._layers.file_form.format(index=window.index)
        path = os.path.join(self._layers.folder, name)
        assert self._tracer is not None
        try:
            self._tracer.label(f"{path}.part")
            # Under its name a window is whole.
            os.replace(f"{path}.part", path)
        except Exception as error:  # noqa: BLE001 - the others may still be read
            reason = f"window {window.index} cannot be read: {type(error).__name__}: {error}"
            self._report(reason)
            with contextlib.suppress(OSError):
                os.remove(f"{path}.part")
            return
        self._events.write(
            WindowSaved(
                index=window.index,
                purpose=window.shape.purpose,
                file=name,
                device=self._device,
                first_step=window.first_step,
                last_step=window.last_done,
                # Those before and after pay for starting the trace and for keeping it.
                disturbed=(window.first_traced - 1, window.last_done + 1),
                begin_s=window.opened_s,
                end_s=window.end_s,
                cost_s=window.cost_s,
            )
        )

    def _give_up(self, reason: str) -> None:
        self._off = True
        self._report(reason)
        if self._window is not None:
            self._window = None
            try:
                self._stop_tracer()
            except Exception as error:  # noqa: BLE001 - as above
                self._report(f"the tracer could not be stopped: {error}")

    def _report(self, reason: str) -> None:
        self._events.write(LayersFailed(reason, t_s=time.monotonic()))


def module_table(spec: TrainSpec, summaries: Sequence[LayerSummary]) -> list[dict[str, Any]]:
    """The graph's layers as the record tells of modules; bytes that nobody counted are None."""
    counts = {summary.name: summary.parameter_count for summary in summaries}
    return [
        {
            "root": spec.graph.name,
            "layer": layer.name,
            "class": layer.kind,
            "parameters": counts.get(layer.name, 0),
            "parameter_bytes": counts.get(layer.name, 0) * _PARAMETER_BYTES,
            "gradient_bytes": None,
            "optimizer_bytes": None,
        }
        for layer in spec.graph.layers
        if layer.kind != "input"
    ]


def folder_bytes(folder: str) -> int:
    """The size of all files under a folder."""
    return sum(
        os.path.getsize(os.path.join(path, name))
        for path, _, names in os.walk(folder)
        for name in names
    )
