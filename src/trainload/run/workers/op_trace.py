"""Has a worker trace the operations of a training step on fake tensors; nothing is trained.

Leaves the op trace and the worker's log in a folder. Prints nothing; who wants to see progress
passes a function.
"""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from trainload.checked import build_checked
from trainload.errors import Terminated, UsageError, WorkerError, WorkloadError
from trainload.record import EventReader, LineReader, layout
from trainload.run.workers.interrupts import (
    signals_as_interrupts,
    stopping_signal,
)
from trainload.run.workers.processes import WorkerProcess
from trainload.workload import ScriptWorkload, Training, Workload
from trainload_worker.protocol.events import End, Event, OpTraceSaved, OpTraceStep, PhaseEdge
from trainload_worker.protocol.graph import GraphSpec
from trainload_worker.protocol.spec import BuildSpec, ScriptSpec, SettingSpec, TraceSpec

LIMIT_S = 120.0
_POLL_S = 0.2
_START_S = 60.0
"""What an interpreter and its framework may take to start on a slow disk."""
_GRACE_S = 3.0

ShowTrace = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class BuildFunction:
    """A function in the user's file that returns a module and the function for its loss."""

    path: Path
    name: str
    batch_size: int
    precision: str = "float32"
    optimizer: str = "adamw"
    learning_rate: float = 1e-3
    momentum: float = 0.9

    @property
    def training(self) -> Training:
        """How its step is done."""
        momentum = self.momentum if self.optimizer == "sgd" else 0.0
        rule = {
            "name": self.optimizer,
            "learning_rate": self.learning_rate,
            "weight_decay": 0.0,
            "momentum": momentum,
        }
        values = {"batch_size": self.batch_size, "precision": self.precision, "epochs": 1}
        return build_checked(Training, {**values, "optimizer": rule}, self.name)


class TracingProcess(Protocol):
    """A process that traces a step: a worker, or another that does its work."""

    def wait(self, timeout_s: float) -> int | None:
        """The exit status; None if it still runs."""
        ...

    def end(self, grace_s: float, first: int = signal.SIGTERM) -> int:
        """Ask with a signal, then insist after the grace time."""
        ...

    def sweep(self) -> None:
        """End it and whatever it has left."""
        ...


@dataclass(frozen=True, kw_only=True)
class OpTraceRequest:
    """One step to be traced."""

    source: Workload | ScriptWorkload | BuildFunction
    python: str
    """Interpreter of torch's environment."""
    target: Literal["cuda", "cpu"] = "cuda"
    """Whose choices the step makes."""
    capability: tuple[int, int] = (9, 0)
    """Of the GPU, as CUDA numbers it: it decides between attention kernels."""
    iterations: int = 2
    limit_s: float = LIMIT_S
    checkpoint_blocks: bool = False
    """Whether blocks of the model are computed again on the way back instead of kept."""

    def __post_init__(self) -> None:
        if not 0 < self.limit_s < float("inf"):
            raise UsageError(f"--limit-s {self.limit_s:g}: must be above 0 seconds")
        if self.iterations < 1:
            raise UsageError(f"{self.iterations} iterations: must be at least 1")


@dataclass(frozen=True, kw_only=True)
class OpTraceResult:
    """Where the trace is, and how it came about."""

    path: Path
    steps: int
    operations: int
    elapsed_s: float
    notes: tuple[str, ...]
    alike: tuple[tuple[int, int], tuple[int, int]]
    """Capabilities whose step is the same: from the first on, below the second."""


def parse_build(text: str, **options: Any) -> BuildFunction:
    """`my.py:build` as a function in a file; UsageError where the text is none."""
    path, colon, name = text.rpartition(":")
    if not colon or not path.endswith(".py") or not name.isidentifier():
        raise UsageError(f"{text!r}: must name a file and a function in it, such as my.py:build")
    if not Path(path).is_file():
        raise UsageError(f"{path}: no such file")
    return BuildFunction(path=Path(path), name=name, **options)


def spawn_op_trace(
    request: OpTraceRequest, folder: Path, show: ShowTrace | None = None
) -> OpTraceResult:
    """Trace a step in a worker and leave `ops.jsonl.gz` in the folder.

    WorkloadError with the worker's one line where the step cannot be traced.
    """

    def start(spec: TraceSpec, log: Path) -> WorkerProcess:
        worker = WorkerProcess(request.python, log, _environment())
        try:
            worker.send_spec(spec)
        except BaseException:
            worker.sweep()
            raise
        return worker

    with signals_as_interrupts():
        return follow_op_trace(request, folder, start, show)


def follow_op_trace(
    request: OpTraceRequest,
    folder: Path,
    start: Callable[[TraceSpec, Path], TracingProcess],
    show: ShowTrace | None = None,
) -> OpTraceResult:
    """Have a process trace the step: `start` gets its specification and the path of its log."""
    folder.mkdir(parents=True, exist_ok=True)
    start_s = time.monotonic()
    events_path = folder / layout.EVENTS
    events_path.unlink(missing_ok=True)
    events = EventReader(lines=LineReader(path=events_path))
    trace = folder / layout.OP_TRACE
    trace.unlink(missing_ok=True)
    process = start(_spec(request, events_path, trace), folder / layout.WORKER_LOG)
    try:
        said = _follow(process, events, request, show, start_s)
    except (KeyboardInterrupt, Terminated):
        process.end(_GRACE_S, stopping_signal())
        raise
    finally:
        process.sweep()
    done = said.saved
    if done is None or not trace.is_file():
        raise _problem(said.end, folder / layout.WORKER_LOG)
    return OpTraceResult(
        path=trace,
        steps=done.steps,
        operations=done.operations,
        elapsed_s=time.monotonic() - start_s,
        notes=done.notes,
        alike=done.alike
        or (request.capability, (request.capability[0], request.capability[1] + 1)),
    )


def _spec(request: OpTraceRequest, events: Path, trace: Path) -> TraceSpec:
    source, setting = request.source, SettingSpec()
    events_path = str(events.resolve())
    traced: GraphSpec | BuildSpec | ScriptSpec
    data, training = None, None
    if isinstance(source, Workload):
        traced, data, training = source.graph.to_spec(), source.data, source.training
    elif isinstance(source, BuildFunction):
        traced, training = BuildSpec(str(source.path.resolve()), source.name), source.training
    else:
        traced = ScriptSpec(
            events_path, "torch", str(source.place), setting, arguments=source.arguments
        )
    return TraceSpec(
        events_path=events_path,
        framework="torch",
        trace_path=str(trace.resolve()),
        target=request.target,
        iterations=request.iterations,
        limit_s=request.limit_s,
        setting=setting,
        source=traced,
        parent_pid=os.getpid(),
        capability=request.capability,
        data=data,
        training=training,
        checkpoint_blocks=request.checkpoint_blocks,
    )


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        # Nothing is computed, so threads would only be started; and no GPU is to be woken.
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONUNBUFFERED": "1",
    }


@dataclass(kw_only=True)
class _Said:
    """What the worker has said so far."""

    building: bool = False
    steps: int = 0
    saved: OpTraceSaved | None = None
    end: End | None = None

    def add(self, event: Event) -> None:
        if isinstance(event, PhaseEdge):
            self.building = True
        elif isinstance(event, OpTraceStep):
            self.steps = event.step
        elif isinstance(event, OpTraceSaved):
            self.saved = event
        elif isinstance(event, End):
            self.end = event


def _follow(
    process: TracingProcess,
    events: EventReader,
    request: OpTraceRequest,
    show: ShowTrace | None,
    start_s: float,
) -> _Said:
    """Everything that the worker said, once it has ended."""
    said = _Said()
    deadline_s = start_s + request.limit_s + _START_S
    status = None
    while status is None:
        status = process.wait(_POLL_S)
        for event in events.read_new():
            said.add(event)
        now_s = time.monotonic()
        if show is not None and status is None:
            show(_render(said, request, now_s - start_s))
        if status is None and now_s > deadline_s:
            # It holds its own limit; this is for one that hangs where no signal reaches it.
            process.end(_GRACE_S)
            raise WorkloadError(
                f"the step did not end within {request.limit_s:g} s (--limit-s); "
                "measure a few real steps instead: --measure"
            )
    return said


def _render(said: _Said, request: OpTraceRequest, now_s: float) -> str:
    where = "building the model" if said.building else "starting torch"
    if said.steps:
        where = f"step {said.steps} of {request.iterations}"
    return f"tracing operations: {where}, {now_s:.0f} s"


def _problem(end: End | None, log: Path) -> Exception:
    if end is not None and end.reason:
        return WorkloadError(end.reason)
    try:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    except OSError:
        lines = []
    last = next((line[:200] for line in reversed(lines) if line), "it said nothing")
    return WorkerError(f"the worker that traces the step died: {last}; its words stand in {log}")
