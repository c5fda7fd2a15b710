"""A workload as a run's record keeps it, and the workload that is read back from there.

What a run was trained on is taken at its word; only other data is looked at, and where to write
is never the record's to say.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trainload.checked import build_checked
from trainload.errors import WorkloadError
from trainload.workload.data.choose import DataOptions, survey_data
from trainload.workload.graph.layers import graph_from_spec
from trainload.workload.masking import Masking
from trainload.workload.places import DECODED, cache_folder
from trainload.workload.script import ScriptFile, ScriptWorkload
from trainload.workload.spec import Seeds, Training, Workload
from trainload.workload.watched import WatchedWorkload
from trainload.workload.zoo.models import find_model
from trainload_worker.protocol.data import Data, ImageData, NpyData
from trainload_worker.protocol.graph import GraphSpec


@dataclass(frozen=True, kw_only=True)
class RecordedGraph:
    """A built-in model, or a graph of the user's own; None where the record holds nothing sound."""

    model: str | None = None
    model_options: Mapping[str, Any] = field(default_factory=dict)
    parameters: int | None = None
    graph: GraphSpec | None
    data: Data | None = None
    training: Training | None = None
    seeds: Seeds | None = None


@dataclass(frozen=True, kw_only=True)
class RecordedScript:
    """A user's script: the record knows the file and nothing of its inside."""

    model: str | None = None
    script: ScriptFile | None


@dataclass(frozen=True, kw_only=True)
class RecordedWatch:
    """A training in the user's own process, with the settings its author gave."""

    model: str | None = None
    watched: Mapping[str, Any]


RecordedWorkload = RecordedGraph | RecordedScript | RecordedWatch


def recorded_workload(
    workload: Workload | ScriptWorkload | WatchedWorkload, masking: Masking
) -> RecordedWorkload:
    """The form kept in run.json, secrets masked."""
    if isinstance(workload, ScriptWorkload):
        arguments = masking.arguments(workload.arguments)
        script = replace(workload, arguments=arguments, masked=masking.count)
        return RecordedScript(model=workload.model, script=script)
    if isinstance(workload, WatchedWorkload):
        return RecordedWatch(model=workload.model, watched=masking.config(workload.config))
    return RecordedGraph(
        model=workload.model,
        model_options=workload.model_options,
        parameters=workload.graph.parameters,
        graph=workload.graph.to_spec(),
        data=_masked_data(workload.data, masking),
        training=workload.training,
        seeds=workload.seeds,
    )


def _masked_data(data: Data, masking: Masking) -> Data:
    """The same data; an address keeps no credentials."""
    if not isinstance(data, ImageData | NpyData) or data.address is None:
        return data
    return replace(data, address=masking.text(data.address))


def workload_from_record(
    recorded: RecordedWorkload | None, where: str, cache: str | None = None
) -> Workload:
    """The workload of a run of a built-in model; `where` names its place in complaints.

    Decoded images are kept in the folder `cache`, or in the user's own: a record may come from
    anyone, and is not asked where to write.
    """
    if not isinstance(recorded, RecordedGraph):
        raise WorkloadError(f"{where} is no run of a built-in model; only those leave checkpoints")
    graph, data, training, seeds = recorded.graph, recorded.data, recorded.training, recorded.seeds
    if graph is None or data is None or training is None or seeds is None:
        parts = {"graph": graph, "data": data, "training": training, "seeds": seeds}
        lacking = ", ".join(name for name, part in parts.items() if part is None)
        raise WorkloadError(f"{where}: the recorded workload has no sound {lacking}")
    return Workload(
        model=recorded.model or graph.name,
        model_options=recorded.model_options,
        graph=graph_from_spec(graph),
        data=replace(data, cache=str(cache_folder(cache) / DECODED))
        if isinstance(data, ImageData)
        else data,
        training=training,
        seeds=seeds,
    )


def refit_data(workload: Workload, word: str, cache: str | None = None) -> Workload:
    """The same model on other data; WorkloadError where they do not fit each other."""
    family = find_model(workload.model)
    given = {"data": word, **({} if cache is None else {"cache": cache})}
    options = build_checked(DataOptions, given, "data")
    data = survey_data(workload.model, family, options, given).fit(workload.graph, family)
    return replace(workload, data=data)
