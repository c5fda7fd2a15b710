"""Traces of steps: in workers, two at a time, or forked from this process; prints nothing.

Keeps the files of a trace for as long as it is read; what they mean is for `estimate`. The last few
traces of layer graphs are remembered: whoever asks again, or asks something else, waits no more.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainload.errors import TrainloadError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainload.api.in_process import HandedStep
    from trainload.estimate.memory.device import DeviceMemory
    from trainload.estimate.memory.op_trace import Event
    from trainload.run import BuildFunction, OpTraceRequest, OpTraceResult
    from trainload.workload import ScriptWorkload, Workload

AT_ONCE = 2
REMEMBERED_EVENTS = 60_000
"""Of all remembered traces together, tens of megabytes; the oldest go first."""
Show = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class TraceJob:
    """One step to be traced."""

    step: Workload | ScriptWorkload | BuildFunction | HandedStep
    checkpoint_blocks: bool = False


@dataclass(frozen=True, kw_only=True)
class Traced:
    """What came of it."""

    events: tuple[Event, ...]
    parameters: int
    notes: tuple[str, ...]
    elapsed_s: float
    alike: tuple[tuple[int, int], tuple[int, int]]
    """Capabilities of GPUs whose step is the same: from the first on, below the second."""
    at_most: bool = False
    """Whether the step may need less, since sizes in it are not known."""

    def serves(self, capability: tuple[int, int]) -> bool:
        """Whether a GPU of that capability does the step alike."""
        first, beyond = self.alike
        return first <= capability < beyond


class Tracing:
    """Traces for one device in one interpreter; used as a context, which keeps its files.

    Without an interpreter the steps are of this very process: forked from it, one at a time.
    """

    def __init__(
        self, python: str | None, device: DeviceMemory, limit_s: float, show: Show | None
    ) -> None:
        self._python = python
        self._device = device
        self._limit_s = limit_s
        self._progress = _Progress(show)
        self._stopped = threading.Event()
        self._count = 0

    def __enter__(self) -> Tracing:
        self._folder = Path(tempfile.mkdtemp(prefix="trainload-estimate-"))
        return self

    def __exit__(self, *_ending: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def trace(self, job: TraceJob, name: str) -> Traced:
        """One step; TrainloadError where it cannot be traced."""
        found = self.trace_all({name: job})[name]
        if isinstance(found, TrainloadError):
            raise found
        return found

    def trace_all(self, jobs: Mapping[str, TraceJob]) -> dict[str, Traced | TrainloadError]:
        """Several steps by name; one that cannot be traced gives its error."""
        self._progress.begin(jobs)
        if self._python is None:
            return {name: self._run(name, job) for name, job in jobs.items()}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            futures = {name: pool.submit(self._run, name, job) for name, job in jobs.items()}
            try:
                return {name: future.result() for name, future in futures.items()}
            except BaseException:
                # The threads see it within a fifth of a second and end their workers.
                self._stopped.set()
                pool.shutdown(cancel_futures=True)
                raise

    def _run(self, name: str, job: TraceJob) -> Traced | TrainloadError:
        from trainload.estimate.memory.op_trace import load_op_trace

        self._count += 1
        folder = self._folder / str(self._count)
        try:
            request = self._request(job)
            known = _REMEMBERED.find(request)
            if known is not None:
                return known
            result = self._trace(job, request, folder, lambda text: self._tell(name, text))
            trace = load_op_trace(result.path)
            events = tuple(trace.events())
        except TrainloadError as error:
            return error
        finally:
            self._progress.end(name)
        shutil.rmtree(folder, ignore_errors=True)
        traced = Traced(
            events=events,
            parameters=sum(layer.parameters for layer in trace.layers),
            notes=tuple(dict.fromkeys((*result.notes, *trace.notes))),
            elapsed_s=result.elapsed_s,
            alike=result.alike,
            at_most=trace.at_most,
        )
        _REMEMBERED.keep(request, traced)
        return traced

    def _request(self, job: TraceJob) -> OpTraceRequest:
        from trainload.api.in_process import HandedStep
        from trainload.run import OpTraceRequest

        step = job.step
        return OpTraceRequest(
            source=step.build if isinstance(step, HandedStep) else step,
            python=self._python or sys.executable,
            target=self._device.target,
            capability=self._device.capability,
            limit_s=self._limit_s,
            checkpoint_blocks=job.checkpoint_blocks,
        )

    def _trace(
        self, job: TraceJob, request: OpTraceRequest, folder: Path, show: Show
    ) -> OpTraceResult:
        from trainload.api.in_process import HandedStep, fork_op_trace
        from trainload.run import spawn_op_trace

        if isinstance(job.step, HandedStep):
            return fork_op_trace(request, job.step, folder, show)
        return spawn_op_trace(request, folder, show)

    def _tell(self, name: str, text: str) -> None:
        if self._stopped.is_set():
            raise KeyboardInterrupt
        self._progress.tell(name, text)


class _Remembered:
    """Traces of this process by what was asked; of layer graphs alone, since files change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[tuple[OpTraceRequest, Traced]] = []

    def find(self, request: OpTraceRequest) -> Traced | None:
        """What came of the same request before, or of one for a GPU that does the step alike."""
        with self._lock:
            for asked, traced in self._kept:
                same = replace(asked, capability=request.capability) == request
                if same and traced.serves(request.capability):
                    return traced
            return None

    def keep(self, request: OpTraceRequest, traced: Traced) -> None:
        """Remember one, unless it is of the user's own code."""
        from trainload.workload import Workload

        if not isinstance(request.source, Workload):
            return
        with self._lock:
            self._kept.append((request, traced))
            while sum(len(one.events) for _, one in self._kept) > REMEMBERED_EVENTS:
                self._kept.pop(0)


_REMEMBERED = _Remembered()


class _Progress:
    """What is being traced, in one line."""

    def __init__(self, show: Show | None) -> None:
        self._show = show
        self._lock = threading.Lock()
        self._open: dict[str, str] = {}
        self._done = self._total = 0

    def begin(self, jobs: Mapping[str, TraceJob]) -> None:
        """So many more are to come."""
        self._total += len(jobs)

    def tell(self, name: str, text: str) -> None:
        """How far one of them is."""
        with self._lock:
            self._open[name] = text.removeprefix("tracing operations: ")
            self._tell()

    def end(self, name: str) -> None:
        """One of them is done."""
        with self._lock:
            self._open.pop(name, None)
            self._done += 1
            self._tell()

    def _tell(self) -> None:
        if self._show is not None:
            steps = "; ".join(f"{name}: {text}" for name, text in self._open.items())
            self._show(f"traced {self._done} of {self._total} steps; {steps}".rstrip("; "))
