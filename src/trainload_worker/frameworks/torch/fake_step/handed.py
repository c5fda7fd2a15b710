"""Traces the step of a module that lives in this process, for a process forked to do so.

Changes torch and the module for the rest of the process, which must not be the user's own.
"""

from __future__ import annotations

import sys
import time
import traceback
from typing import Any

import torch

from trainload_worker.frameworks.torch.fake_step.trace import trace_step
from trainload_worker.process.endings import classify
from trainload_worker.process.events import EventWriter
from trainload_worker.protocol.events import End, PhaseEdge
from trainload_worker.protocol.spec import TraceSpec

_BAD_FORK = "fork-based multiprocessing"
"""In torch's words where a backward pass on a GPU has started threads that no fork has."""


def trace_handed(module: Any, loss: Any, spec: TraceSpec) -> None:
    """Traces by the specification and tells the events file how it ended."""
    events = EventWriter(spec.events_path)
    events.write(PhaseEdge("trace", "begin", time.monotonic()))
    try:
        _prepare()
        events.write(trace_step(spec, events, (module, loss)))
        end = End("completed", None)
    except BaseException as error:  # noqa: BLE001 - whatever ends it is told
        traceback.print_exc()
        end = _explained(error)
    events.write(end)
    events.close()


def _prepare() -> None:
    """What a fork must not inherit: threads that are not there, and modes of the caller's."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(True)
    if "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance"):
        torch.compiler.set_stance("force_eager")


def _explained(error: BaseException) -> End:
    if _BAD_FORK in str(error):
        return End(
            "failed",
            "a backward pass has used a GPU in this process, after which torch works in no fork "
            "of it; estimate before training, or a function in a file, such as my.py:build",
        )
    return classify(error, "trace")
