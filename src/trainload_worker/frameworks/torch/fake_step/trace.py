"""Dispatches a real training step on fake tensors and leaves its op trace; trains nothing.

What the step is made of comes from `sources`; this file marks its parts and says in
one line why a step cannot be traced.
"""

from __future__ import annotations

import gc
import os
import signal
import time
import traceback
from types import FrameType
from typing import Any, Iterator

import torch

from trainload_worker.errors import FrameworkError, WorkerProblem
from trainload_worker.frameworks.torch.fake_step.capability import Capability
from trainload_worker.frameworks.torch.fake_step.cuda import stand_in, take_cpu
from trainload_worker.frameworks.torch.fake_step.dispatch import FakeDispatch
from trainload_worker.frameworks.torch.fake_step.layers import Layers
from trainload_worker.frameworks.torch.fake_step.log import OpTraceLog
from trainload_worker.frameworks.torch.fake_step.tensors import (
    FakeTensor,
    ValueAsked,
    is_users,
    largest,
    readings,
    usual,
)
from trainload_worker.frameworks.torch.fake_step.without_compiler import (
    leave_compiler_out,
    left_out,
)
from trainload_worker.frameworks.torch.offer import OFFER
from trainload_worker.process.events import EventWriter
from trainload_worker.protocol.events import OpTraceSaved, OpTraceStep
from trainload_worker.protocol.spec import ScriptSpec, TraceSpec

MEASURE = "measure a few real steps instead: --measure"
_MOST_PLACES = 4
_OWN_BF16 = (8, 0)
"""The first GPUs with bf16 arithmetic of their own."""


class TraceProblem(WorkerProblem):
    """A step that cannot be traced; the message says why and what to do instead."""


class Enough(BaseException):
    """As many steps were seen as were asked for."""


class OutOfTime(BaseException):
    """The step did not end within its time."""


class Tracer:
    """The steps of one trace; sources call it at the seams between their parts."""

    def __init__(
        self, spec: TraceSpec, events: EventWriter, handed: tuple[Any, Any] | None = None
    ) -> None:
        self.spec = spec
        self.handed = handed
        """A module and its loss that are here already, in place of the specification's build."""
        self.on_cuda = spec.target == "cuda"
        self.capability = Capability(spec.capability)
        self.log = OpTraceLog()
        self.layers = Layers()
        self.dispatch = FakeDispatch(
            self.log,
            self.layers.where,
            on_cuda=self.on_cuda,
            adopts=not isinstance(spec.source, ScriptSpec),
        )
        self.optimizer_name: str | None = None
        self.precision: str | None = None
        self.batch_size: int | None = None
        self.steps = 0
        self._events = events
        self._first_of_step = 0

    @property
    def device(self) -> Any:
        """Where the step runs, to the program."""
        return torch.device("cuda", 0) if self.on_cuda else torch.device("cpu")

    def begin(self, models: list[Any]) -> None:
        """Begins the trace after building: live storages are weights, buffers and inputs."""
        self.tell_weights(models)
        for number in self.log.untold_since(0):
            self.log.tell(number, "input")
        self.log.forget_past()
        for places in (readings, largest, usual):
            places.clear()

    def begin_step(self) -> None:
        """Marks the beginning of a step; gradients of the step before are still allocated."""
        self._first_of_step = self.log.next_number
        self.layers.begin_step()
        self.layers.phase = "forward"
        self.log.mark("step begin")

    def begin_backward(self) -> None:
        """Marks the beginning of the backward pass: live storages of the step are activations."""
        self.log.mark("backward begin")
        for number in self.log.untold_since(self._first_of_step):
            self.log.tell(number, "activation")

    def begin_update(self, parameters: Iterator[Any]) -> None:
        """Marks the beginning of the update: gradients of the parameters are complete."""
        for parameter in parameters:
            self._tell(parameter.grad, "gradient")
        self.layers.phase = "update"
        self.log.mark("update begin")

    def end_step(self, optimizer: Any) -> None:
        """Marks the end of a step: what the optimizer holds now is its state."""
        for state in optimizer.state.values():
            for value in state.values() if isinstance(state, dict) else ():
                self._tell(value, "optimizer")
        self.layers.phase = "other"
        self.log.mark("step end")
        self.log.step += 1
        self.steps += 1
        self._events.write(OpTraceStep(self.steps, t_s=time.monotonic()))

    def tell_weights(self, models: list[Any]) -> None:
        """Sets the category of the storages of weights and buffers."""
        for model in models:
            for buffer in model.buffers():
                self._tell(buffer, "buffer")
            for parameter in model.parameters():
                self._tell(parameter, "weight")

    def _tell(self, tensor: Any, category: str) -> None:
        if isinstance(tensor, FakeTensor) and tensor.store.number >= 0:
            self.log.tell(tensor.store.number, category)


def trace_step(
    spec: TraceSpec, events: EventWriter, handed: tuple[Any, Any] | None = None
) -> OpTraceSaved:
    """Traces the specification's step and writes the file; what the trace has, as an event.

    `handed` is a module and its loss function that stand for the specification's build.

    TraceProblem, or another problem of the user's, where there is nothing to write.
    """
    found = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if not OFFER.lowest <= found < OFFER.below:
        raise FrameworkError(
            f"torch {torch.__version__} cannot be traced, only {OFFER.accepted}; "
            "install one of those, or name an interpreter that has one: --python"
        )
    leave_compiler_out()
    tracer = Tracer(spec, events, handed)
    if tracer.on_cuda:
        stand_in(tracer.capability)
    else:
        take_cpu()
    _run_within_limits(tracer)
    tracer.log.open = False
    if not tracer.steps:
        raise TraceProblem(f"no optimizer step was seen; {MEASURE}")
    if tracer.on_cuda and not tracer.log.operations:
        raise TraceProblem(
            "the step puts nothing on the GPU; to see what it needs on a CPU, add --target cpu"
        )
    tracer.dispatch.notes.extend(_remarks(tracer))
    tracer.log.save(spec.trace_path, _header(tracer))
    return OpTraceSaved(
        tracer.steps,
        tracer.log.operations,
        tuple(tracer.dispatch.notes),
        tracer.capability.alike,
    )


def _remarks(tracer: Tracer) -> Iterator[str]:
    """Notes on what limits the trace: values read as 1, bf16 that is emulated."""
    yield from left_out
    if readings:
        values = "1 value was" if len(readings) == 1 else f"{len(readings)} values were"
        yield f"{values} read from tensors and taken as 1: {_shown(readings)}"
    if largest:
        yield (
            "sizes that depend on numbers were taken for the largest that they can be, "
            f"so that less may be needed: {_shown(largest)}"
        )
    if usual:
        yield f"checks of unknown numbers were taken to find nothing amiss: {_shown(usual)}"
    halves = tracer.on_cuda and tracer.precision == "bf16"
    if halves and not tracer.capability.at_least(_OWN_BF16):
        major, minor = tracer.capability.tell()
        yield f"a GPU of capability {major}.{minor} has no bf16 arithmetic: torch emulates it"


def _shown(lines: dict[str, None]) -> str:
    places = list(lines)
    more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
    return ", ".join(places[:_MOST_PLACES]) + more


def _header(tracer: Tracer) -> dict[str, Any]:
    return {
        "framework": "torch",
        "version": str(torch.__version__),
        "target": tracer.spec.target,
        "precision": tracer.precision,
        "optimizer": tracer.optimizer_name,
        "batch_size": tracer.batch_size,
        "iterations": tracer.steps,
        "capability": list(tracer.spec.capability),
        "layers": tracer.layers.table(),
        "notes": tracer.dispatch.notes,
        "at_most": bool(largest),
    }


def _run_within_limits(tracer: Tracer) -> None:
    from trainload_worker.frameworks.torch.fake_step.sources import run_source

    limit_s = tracer.spec.limit_s
    # What was imported is never garbage, and to look at it again and again takes time.
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGALRM, _raise_out_of_time)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    # The engine's own threads would run beside the caller's, whose frames say where a step is.
    torch.autograd.set_multithreading_enabled(False)
    tracer.layers.attach()
    try:
        with tracer.dispatch:
            run_source(tracer)
    except Enough:
        pass
    except OutOfTime:
        raise TraceProblem(
            f"no {tracer.spec.iterations} steps within {limit_s:g} s (--limit-s); "
            f"{tracer.steps} were seen; {MEASURE}"
        ) from None
    except ValueAsked as error:
        place = user_place(error.__traceback__)
        raise TraceProblem(f"{place}{error}, and a trace has no numbers; {MEASURE}") from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        tracer.layers.detach()


def _raise_out_of_time(_number: int, _frame: FrameType | None) -> None:
    raise OutOfTime


def user_place(trace: Any) -> str:
    """The innermost line of the user's own code that an error passed, as `file line 3: `."""
    place = ""
    for frame, line in traceback.walk_tb(trace):
        if is_users(frame.f_code.co_filename):
            place = f"{os.path.basename(frame.f_code.co_filename)} line {line}: "
    return place


def explain(error: BaseException, what: str) -> TraceProblem:
    """A user's error as one line that names theirs."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return TraceProblem(f"{user_place(error.__traceback__)}{what} raised {said}")
