"""Predictions kept for the day their workload is run, and what past runs say of them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainload.api.estimating.sources import GraphSource, ScriptSource, Source
from trainload.errors import RecordError
from trainload.record.layout import PREDICTION
from trainload.record.predictions import keep_prediction, load_prediction
from trainload.workload.identity import timed_identity

if TYPE_CHECKING:
    from trainload.api.predicting.result import Prediction
    from trainload.predict.adjust import Residual
    from trainload.workload import ScriptWorkload, Workload


def keep(done: Prediction, source: Source) -> None:
    """Keep a prediction of one device; that a disk refuses is no reason to fail."""
    if done.step is None or done.count != 1:
        return
    if isinstance(source, ScriptSource):
        step: Workload | ScriptWorkload = source.script
    elif isinstance(source, GraphSource) and done.choice is not None and done.precision != "tf32":
        step = source.step(done.choice)
    else:
        return  # no run can be known to be of the same function or module, none is in TF32
    with suppress(RecordError):
        keep_prediction(timed_identity(step, done.device.name), done.to_json())


def correct(done: Prediction, folder: Path) -> Prediction:
    """The prediction by past runs of its device; as it was without one, or of several devices."""
    from trainload.predict.adjust import learn

    if done.step is None or done.count != 1:
        return done
    residual = past_residual(folder, done.device.name, done.step.tier)
    return done if residual is None else replace(done, step=learn(done.step, residual))


def past_residual(folder: Path, device: str, tier: str) -> Residual | None:
    """What the runs in a folder say of the model's predictions for a device; None without one.

    Only completed runs whose prediction had this tier count.
    """
    from trainload.api.loading import load_run_figures
    from trainload.predict.adjust import find_residual

    ratios = []
    for path in sorted(folder.glob(f"*/{PREDICTION}")):
        with suppress(RecordError):  # a damaged run tells nothing
            said = load_prediction(path.parent)
            if said is None or said.device != device or said.model_tier != tier:
                continue
            figures = load_run_figures(path.parent)
            step_s = figures.metrics.get("step_s")
            if figures.outcome == "completed" and step_s and said.model_step_s:
                ratios.append(step_s / said.model_step_s)
    return find_residual(ratios)
