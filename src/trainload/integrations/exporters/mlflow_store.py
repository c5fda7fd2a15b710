"""Runs as an MLflow file store, `mlruns`, which `mlflow ui` opens; written by mlflow itself."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from trainload.integrations.exporters.told import RunTold, require_library

FOLDER = "mlruns"
_ALLOW = "MLFLOW_ALLOW_FILE_STORE"
"""Without it recent versions (3.17 among them) refuse their own file store."""
_RUN_TAG = "trainload.run"
_MOST_METRICS = 1000
"""In one call, by the store's own limit; parameters 100."""
_MOST_PARAMETERS = 100
_LONGEST = 6000
"""Letters of a parameter, by the same limits."""
_STATUS = {"completed": "FINISHED", None: "RUNNING", "interrupted": "KILLED", "killed": "KILLED"}


def export_to_mlflow(runs: Sequence[RunTold], out: Path) -> list[Path]:
    """Write the store into `out`; runs of a study are one experiment, others are `trainload`.

    A run that an earlier export left there is deleted as MLflow deletes.
    """
    require_library("MLflow", "mlflow", "mlflow")
    os.environ.setdefault(_ALLOW, "true")
    from mlflow.tracking import MlflowClient

    folder = out / FOLDER
    client = MlflowClient(tracking_uri=folder.resolve().as_uri())
    for told in runs:
        experiment = told.study or "trainload"
        found = client.get_experiment_by_name(experiment)
        place = client.create_experiment(experiment) if found is None else found.experiment_id
        quoted = told.name.replace("'", "")
        for before in client.search_runs([place], f"tags.`{_RUN_TAG}` = '{quoted}'"):
            client.delete_run(before.info.run_id)
        made = client.create_run(
            place,
            start_time=_milliseconds(told.began_s),
            run_name=told.name,
            tags={_RUN_TAG: quoted, "trainload.outcome": told.outcome or "running"},
        )
        _fill(client, made.info.run_id, told)
        client.set_terminated(
            made.info.run_id,
            status=_STATUS.get(told.outcome, "FAILED"),
            end_time=_milliseconds(told.ended_s),
        )
    return [folder]


def _fill(client: Any, run_id: str, told: RunTold) -> None:
    from mlflow.entities import Metric, Param

    parameters = (Param(_key(k), v[:_LONGEST]) for k, v in told.parameters.items())
    while some := list(islice(parameters, _MOST_PARAMETERS)):
        client.log_batch(run_id, params=some)
    metrics = (Metric(_key(name), value, at, step) for name, value, at, step in _metrics(told))
    while many := list(islice(metrics, _MOST_METRICS)):
        client.log_batch(run_id, metrics=many)


def _metrics(told: RunTold) -> Iterator[tuple[str, float, int, int]]:
    ended = _milliseconds(told.ended_s)
    for name, value in told.figures.items():
        yield name, value, ended, 0
    for kind, points in told.series.items():
        for point in points:
            at = _milliseconds(told.began_s + point.time_s)
            for name, value in point.values.items():
                yield f"{kind}/{name}", value, at, point.step


def _key(name: str) -> str:
    """Letters, digits, dots, dashes, underscores, spaces and slashes are all that MLflow takes."""
    return "".join(c if (c.isalnum() and c.isascii()) or c in "._-/ " else "_" for c in name)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
