"""Traces of steps for `trainload estimate`: in workers, two at a time, with a line of progress."""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainload.errors import TrainloadError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainload.estimate.memory.device import DeviceMemory
    from trainload.estimate.memory.op_trace import Event
    from trainload.run import BuildFunction
    from trainload.workload import ScriptWorkload, Workload

AT_ONCE = 2
_QUIET_S = 10.0
"""Between two lines of progress where nothing can be written over."""


@dataclass(frozen=True, kw_only=True)
class TraceJob:
    """One step to be traced."""

    step: Workload | ScriptWorkload | BuildFunction
    checkpoint_blocks: bool = False


@dataclass(frozen=True, kw_only=True)
class Traced:
    """What came of it."""

    events: tuple[Event, ...]
    parameters: int
    notes: tuple[str, ...]
    elapsed_s: float


class Tracing:
    """Traces for one device in one interpreter; used as a context, which keeps its files."""

    def __init__(
        self, python: str, device: DeviceMemory, limit_s: float, *, progress: bool
    ) -> None:
        self._python = python
        self._device = device
        self._limit_s = limit_s
        self._line = _ProgressLine() if progress else None
        self._stopped = threading.Event()
        self._count = 0

    def __enter__(self) -> Tracing:
        self._folder = Path(tempfile.mkdtemp(prefix="trainload-estimate-"))
        return self

    def __exit__(self, *_ending: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._line is not None:
            self._line.clear()

    def trace(self, job: TraceJob, name: str) -> Traced:
        """One step; TrainloadError where it cannot be traced."""
        found = self.trace_all({name: job})[name]
        if isinstance(found, TrainloadError):
            raise found
        return found

    def trace_all(self, jobs: Mapping[str, TraceJob]) -> dict[str, Traced | TrainloadError]:
        """Several steps by name; one that cannot be traced gives its error."""
        if self._line is not None:
            self._line.begin(jobs)
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
        from trainload.run import OpTraceRequest, spawn_op_trace

        self._count += 1
        folder = self._folder / str(self._count)
        try:
            request = OpTraceRequest(
                source=job.step,
                python=self._python,
                target=self._device.target,
                capability=self._device.capability,
                limit_s=self._limit_s,
                checkpoint_blocks=job.checkpoint_blocks,
            )
            result = spawn_op_trace(request, folder, lambda text: self._tell(name, text))
            trace = load_op_trace(result.path)
            events = tuple(trace.events())
        except TrainloadError as error:
            return error
        finally:
            if self._line is not None:
                self._line.end(name)
        shutil.rmtree(folder, ignore_errors=True)
        return Traced(
            events=events,
            parameters=sum(layer.parameters for layer in trace.layers),
            notes=tuple(dict.fromkeys((*result.notes, *trace.notes))),
            elapsed_s=result.elapsed_s,
        )

    def _tell(self, name: str, text: str) -> None:
        if self._stopped.is_set():
            raise KeyboardInterrupt
        if self._line is not None:
            self._line.show(name, text)


class _ProgressLine:
    """What is being traced, on standard error."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._lock = threading.Lock()
        self._open: dict[str, str] = {}
        self._done = self._total = 0
        self._next_s = time.monotonic() + _QUIET_S

    def begin(self, jobs: Mapping[str, TraceJob]) -> None:
        """So many more are to come."""
        self._total += len(jobs)

    def show(self, name: str, text: str) -> None:
        """How far one of them is."""
        with self._lock:
            self._open[name] = text
            self._write()

    def end(self, name: str) -> None:
        """One of them is done."""
        with self._lock:
            self._open.pop(name, None)
            self._done += 1
            self._write()

    def clear(self) -> None:
        """Leaves the line empty."""
        if self._live:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()

    def _write(self) -> None:
        steps = "; ".join(f"{name}: {_short(text)}" for name, text in self._open.items())
        line = f"traced {self._done} of {self._total} steps; {steps}".rstrip("; ")
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r{line[:width]}\033[K")
            sys.stderr.flush()
        elif time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _QUIET_S
            sys.stderr.write(f"{line}\n")


def _short(text: str) -> str:
    return text.removeprefix("tracing operations: ")
