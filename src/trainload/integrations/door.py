"""The one door to the worker's own code inside the user's process.

For a training that is watched where it runs, and for a module that is handed over in Python; all
else of trainload spawns the worker and knows its protocol alone. Loads no framework by itself.
"""

from typing import Any

from trainload_worker.errors import WorkerProblem
from trainload_worker.frameworks.create import create_layer_probe, create_probe
from trainload_worker.process import script
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
    "is_measured",
    "keras_callback",
    "trace_handed",
]


def is_measured() -> bool:
    """Whether this process runs a script under `trainload run`, which measures it already."""
    return script.under_way


def keras_callback(keras: Any, probe: Any) -> Any:
    """A callback of that Keras which tells the probe of a watched training what happens."""
    from trainload_worker.frameworks.tensorflow.probe import make_callback

    return make_callback(keras, probe.fits)


def trace_handed(module: Any, loss: Any, spec: TraceSpec) -> None:
    """Trace a step of a torch module on fake tensors; changes torch: for a forked process only."""
    from trainload_worker.frameworks.torch.fake_step import handed

    handed.trace_handed(module, loss, spec)
