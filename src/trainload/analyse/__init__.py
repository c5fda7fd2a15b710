"""Explaining runs: smoothing, alignment, counters, energy, summaries; frames in, values out.

No file, no device and no drawing here; polars is imported when a function is called.
"""

from trainload.analyse.columns import ColumnSummary, CounterSummary, summarise_columns
from trainload.analyse.course import Course
from trainload.analyse.curves import (
    Curve,
    CurveSet,
    Grid,
    epoch_curves,
    loss_curve,
    sample_curves,
    step_curves,
)
from trainload.analyse.energy import EnergySummary, summarise_energy, trapezoid_j
from trainload.analyse.epochs import EpochScore
from trainload.analyse.findings import tells_losses
from trainload.analyse.headline import headline_row, headline_table
from trainload.analyse.peaks import RunPeaks
from trainload.analyse.series import Span, align_to_steps, bin_rows, time_breaks, training_span
from trainload.analyse.smoothing import WINDOWS, moving_average
from trainload.analyse.step_time import StepTime
from trainload.analyse.summary import PhaseTime, RunSummary, SampleCounts, summarise_run
from trainload.analyse.warmup import WarmUp, find_warmup

__all__ = [
    "WINDOWS",
    "ColumnSummary",
    "CounterSummary",
    "Course",
    "Curve",
    "CurveSet",
    "EnergySummary",
    "EpochScore",
    "Grid",
    "PhaseTime",
    "RunPeaks",
    "RunSummary",
    "SampleCounts",
    "Span",
    "StepTime",
    "WarmUp",
    "align_to_steps",
    "bin_rows",
    "epoch_curves",
    "find_warmup",
    "headline_row",
    "headline_table",
    "loss_curve",
    "moving_average",
    "sample_curves",
    "step_curves",
    "summarise_columns",
    "summarise_energy",
    "summarise_run",
    "tells_losses",
    "time_breaks",
    "training_span",
    "trapezoid_j",
]
