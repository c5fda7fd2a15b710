"""A workload read back from the record of a run; WorkloadError where the record does not hold one.

What a run was trained on is taken at its word; only other data is looked at.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trainload.checked import build_checked
from trainload.errors import WorkloadError
from trainload.workload.data.choose import DataOptions, survey_data
from trainload.workload.data.datasets import CsvData, Data, KeypointData
from trainload.workload.data.images import ImageData
from trainload.workload.data.npy import NpyData
from trainload.workload.data.synthetic import SyntheticData
from trainload.workload.graph.layers import graph_from_json
from trainload.workload.spec import Seeds, Training, Workload
from trainload.workload.zoo.models import find_model

_DATA: Mapping[str, type[Any]] = {
    "keypoints": KeypointData,
    "csv": CsvData,
    "synthetic": SyntheticData,
    "npy": NpyData,
    "folder": ImageData,
    "subset": ImageData,
    "cifar10": ImageData,
    "mnist": ImageData,
}


def workload_from_json(document: Mapping[str, Any], where: str) -> Workload:
    """The workload that `Workload.to_json` wrote; `where` names its place in complaints."""
    if "graph" not in document or "training" not in document:
        raise WorkloadError(f"{where} is no run of a built-in model; only those leave checkpoints")
    try:
        return Workload(
            model=str(document["model"]),
            model_options=document["model_options"],
            graph=graph_from_json(document["graph"]),
            data=_data_from_json(document["data"], where),
            training=build_checked(Training, document["training"], f"{where}: training"),
            seeds=build_checked(Seeds, document["seeds"], f"{where}: seeds"),
        )
    except KeyError as error:
        raise WorkloadError(f"{where}: the workload lacks {error}") from None


def refit_data(workload: Workload, word: str, cache: str | None = None) -> Workload:
    """The same model on other data; WorkloadError where they do not fit each other."""
    family = find_model(workload.model)
    given = {"data": word, **({} if cache is None else {"cache": cache})}
    options = build_checked(DataOptions, given, "data")
    data = survey_data(workload.model, family, options, given).fit(workload.graph, family)
    return replace(workload, data=data)


def _data_from_json(document: Any, where: str) -> Data:
    kind = document.get("kind") if isinstance(document, Mapping) else None
    if not isinstance(kind, str) or kind not in _DATA:
        raise WorkloadError(f"{where}: data of kind {kind!r} is unknown to this version")
    data: Data = build_checked(_DATA[kind], document, f"{where}: data")
    return data
