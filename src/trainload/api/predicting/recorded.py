"""A run directory as what is predicted: its workload read back; trains and writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainload.api.estimating.sources import GraphSource, ScriptSource
from trainload.errors import WorkloadError

if TYPE_CHECKING:
    from trainload.workload import Optimizer


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What a run trained, and how."""

    source: GraphSource | ScriptSource
    batch_size: int | None = None
    precision: str | None = None
    optimizer: Optimizer | None = None


def find_recorded(what: Any) -> Recorded | None:
    """The workload of a run directory; None where `what` is none.

    WorkloadError where the run cannot be traced again.
    """
    from trainload.record import load_manifest
    from trainload.record.layout import MANIFEST
    from trainload.workload.graph.layers import graph_from_spec
    from trainload.workload.recorded import RecordedGraph, RecordedScript
    from trainload.workload.script import script_workload

    if not isinstance(what, str | Path) or not (Path(what) / MANIFEST).is_file():
        return None
    workload = load_manifest(Path(what)).workload
    if isinstance(workload, RecordedScript) and workload.script is not None:
        script = script_workload(workload.script.path, workload.script.arguments)
        return Recorded(source=ScriptSource(script=script))
    if not isinstance(workload, RecordedGraph) or workload.graph is None:
        raise WorkloadError(
            f"{what} keeps no model that could be traced; name the model or its script"
        )
    training = workload.training
    source = GraphSource(graph=graph_from_spec(workload.graph), model=None)
    if training is None:
        return Recorded(source=source)
    return Recorded(
        source=source,
        batch_size=training.batch_size,
        precision=training.precision,
        optimizer=training.optimizer,
    )
