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
from trainload_worker.process.endings import Ending, classify
from trainload_worker.process.events import EventWriter
from trainload_worker.protocol.spec import TraceSpec
from trainload_worker.protocol.spec_reading import parse_spec

_BAD_FORK = "fork-based multiprocessing"
"""In torch's words where a backward pass on a GPU has started threads that no fork has."""


def trace_handed(module: Any, loss: Any, document: bytes) -> None:
    """Traces by the specification and tells the events file how it ended."""
    spec = parse_spec(document)
    assert isinstance(spec, TraceSpec), "a module is handed over to be traced"
    events = EventWriter(spec.events_path)
    events.write("phase", name="trace", edge="begin", t_s=time.monotonic())
    try:
        _prepare()
        events.write("op_trace", **trace_step(spec, events, (module, loss)))
        ending = Ending("completed", None)
    except BaseException as error:  # noqa: BLE001 - whatever ends it is told
        traceback.print_exc()
        ending = _explained(error)
    events.write("end", outcome=ending.outcome, reason=ending.reason, t_s=time.monotonic())
    events.close()


def _prepare() -> None:
    """What a fork must not inherit: threads that are not there, and modes of the caller's."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(True)
    if "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance"):
        torch.compiler.set_stance("force_eager")


def _explained(error: BaseException) -> Ending:
    if _BAD_FORK in str(error):
        return Ending(
            "failed",
            "a backward pass has used a GPU in this process, after which torch works in no fork "
            "of it; estimate before training, or a function in a file, such as my.py:build",
        )
    return classify(error, "trace")
