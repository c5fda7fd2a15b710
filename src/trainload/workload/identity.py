"""What makes two trainings the same to an estimate or prediction, and a model's kind.

Values alone; reads no file.
"""

import hashlib
import json
from typing import Any, Literal

from trainload.checked import to_json
from trainload.workload.recorded import RecordedGraph, RecordedWorkload
from trainload.workload.script import ScriptWorkload
from trainload.workload.spec import Workload

ModelKind = Literal["CNN", "transformer", "recurrent", "MLP", "other"]
_TELLING: tuple[tuple[str, ModelKind], ...] = (
    ("self_attention", "transformer"),
    ("lstm", "recurrent"),
    ("conv2d", "CNN"),
    ("linear", "MLP"),
)


def workload_identity(
    workload: Workload | ScriptWorkload, *, target: str, device: str | None = None
) -> str:
    """A digest of all that decides a step's memory: equal for the same step on the same target.

    `target` is cuda or cpu, `device` the catalogue's name where an estimate is for that device; a
    processor does not change the memory, so its name does not count. Data, seeds and length do not
    either, nor what an optimizer's settings leave alone.
    """
    return _digest(workload, target=target, device=device if target != "cpu" else None)


def timed_identity(workload: Workload | ScriptWorkload, device: str) -> str:
    """A digest of all that decides a step's time on one device: its name counts of any kind."""
    return _digest(workload, target="time", device=device)


def model_kind(workload: RecordedWorkload | None) -> ModelKind:
    """Of a recorded workload, by the layers of its graph; `other` for a script."""
    graph = workload.graph if isinstance(workload, RecordedGraph) else None
    kinds = {layer.kind for layer in graph.layers} if graph is not None else set()
    return next((kind for name, kind in _TELLING if name in kinds), "other")


def _digest(workload: Workload | ScriptWorkload, **where: str | None) -> str:
    step = _script(workload) if isinstance(workload, ScriptWorkload) else _graph(workload)
    text = json.dumps({**step, **where}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:32]


def _graph(workload: Workload) -> dict[str, Any]:
    training, rule = workload.training, workload.training.optimizer
    return {
        "graph": to_json(workload.graph.to_spec()),
        "batch_size": training.batch_size,
        "precision": training.precision,
        "optimizer": rule.name,
        # Of momentum only whether there is one: it keeps a copy of the weights.
        "momentum": rule.name == "sgd" and rule.momentum > 0,
    }


def _script(workload: ScriptWorkload) -> dict[str, Any]:
    place = str(workload.place)
    return {"script": place, "arguments": workload.arguments, "sha256": workload.sha256}
