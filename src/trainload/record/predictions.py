"""What was predicted of a workload on a device: kept until the run and copied into its directory.

Kept beside the estimates, by `trainload.workload.identity.timed_identity`; a later prediction
replaces an earlier one. Files and their schema: nothing is computed here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from trainload.record.estimates import (
    copy_document,
    keep_document,
    read_copied,
)
from trainload.record.layout import PREDICTION
from trainload_worker.protocol.checked import Bounds, not_written

PREDICTION_FORMAT = 1
Figure = Annotated[float, Bounds(low=0, high=1e30)]


@dataclass(frozen=True, kw_only=True)
class PredictedFigures:
    """One end of each range, or the figures themselves; None where nothing was predicted."""

    step_s: Figure | None = None
    examples_per_s: Figure | None = None
    energy_j: Figure | None = None
    """Of one step."""


@dataclass(frozen=True, kw_only=True)
class RecordedPrediction(PredictedFigures):
    """What is read of `prediction.json`, which `trainload predict --json` prints too."""

    format: int = PREDICTION_FORMAT
    what: str | None = None
    device: str | None = None
    """As the catalogue, a device file or a calibration names it."""
    count: int | None = None
    level: float | None = None
    """The share of cases that ranges are meant to hold."""
    low: PredictedFigures = PredictedFigures()
    high: PredictedFigures = PredictedFigures()
    model_step_s: Figure | None = None
    """Without what steps measured here and past runs added; None where that was not written."""
    model_tier: str | None = None
    tier: str | None = None
    wrong: tuple[str, ...] = not_written(tuple)
    """Values that did not fit and were passed over when it was read, a line each."""


def keep_prediction(identity: str, document: Mapping[str, Any]) -> Path:
    """Keep a prediction for the day its workload is run; RecordError where the disk refuses."""
    return keep_document(identity, document)


def copy_prediction(run_dir: Path, identities: Sequence[str]) -> bool:
    """Copy the first of these that was kept into a run directory; False without one."""
    return copy_document(run_dir / PREDICTION, identities)


def load_prediction(run_dir: Path) -> RecordedPrediction | None:
    """The prediction of a run; None where it has none, RecordError where it is damaged."""
    wrong: list[str] = []
    found = read_copied(RecordedPrediction, run_dir / PREDICTION, PREDICTION_FORMAT, wrong)
    return None if found is None else replace(found, wrong=tuple(wrong))
