"""Runs written as the files of other people's tools, by those tools' own libraries, offline.

One file a tool, each with `export_runs(runs, out)`; what a run tells is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from trainload.integrations.exporters.mlflow_store import export_to_mlflow
from trainload.integrations.exporters.openmetrics_file import export_to_openmetrics
from trainload.integrations.exporters.tensorboard_events import export_to_tensorboard
from trainload.integrations.exporters.told import Point, RunTold, tell_run
from trainload.integrations.exporters.wandb_offline import export_to_wandb

EXPORTERS: Mapping[str, Callable[[Sequence[RunTold], Path], list[Path]]] = {
    "mlflow": export_to_mlflow,
    "tensorboard": export_to_tensorboard,
    "wandb": export_to_wandb,
    "openmetrics": export_to_openmetrics,
}
"""Tool -> what writes its files into a folder and answers with their paths."""

__all__ = ["EXPORTERS", "Point", "RunTold", "tell_run"]
