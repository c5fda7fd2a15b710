"""The one door to the worker's own code inside the user's process.

For a training that is watched where it runs, and for a module that is handed over in Python; all
else of trainload spawns the worker and knows its protocol alone. Loads no framework by itself.
"""

from typing import Any

from trainload_worker.errors import WorkerProblem
from trainload_worker.frameworks.create import create_layer_probe, create_probe
from trainload_worker.process.endings import classify
from trainload_worker.process.events import EventWriter, greet
from trainload_worker.protocol.spec import TraceSpec

__all__ = [
    "EventWriter",
    "WorkerProblem",
    "classify",
    "create_layer_probe",
    "create_probe",
    "greet",
    "trace_handed",
]


def trace_handed(module: Any, loss: Any, spec: TraceSpec) -> None:
    """Trace a step of a torch module on fake tensors; changes torch: for a forked process only."""
    from trainload_worker.frameworks.torch.fake_step import handed

    handed.trace_handed(module, loss, spec)
