"""How far predictions were from what then happened: errors and ranges by device and tier.

Takes summaries and documents that were read elsewhere, gives frames; opens no file, draws nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainload.units import MISSING
from trainload.workload.identity import model_kind

if TYPE_CHECKING:
    import polars as pl

    from trainload.analyse.summary import RunSummary
    from trainload.record import Manifest
    from trainload.record.predictions import RecordedPrediction

PREDICTED = ("step_s", "examples_per_s", "energy_j")
"""Seconds of the headline step, its examples a second, its energy."""
_CPU_SOURCE = "rapl_package"


@dataclass(frozen=True, kw_only=True)
class PredictionPair:
    """One figure that was predicted and later measured."""

    name: str
    device: str
    tier: str
    model_kind: str
    quantity: str
    """One of PREDICTED."""
    predicted: float
    low: float | None
    high: float | None
    truth: float


@dataclass(frozen=True)
class PredictionCard:
    """Frames; an error is prediction / truth - 1, `held` whether the range held the truth."""

    rows: pl.DataFrame
    """name, device, tier, model_kind, quantity, predicted, low, high, truth, error, held."""
    groups: pl.DataFrame
    """device, tier, quantity, count, median_error, worst_error, bias_error, held, ranged."""


def pair_prediction(
    manifest: Manifest, summary: RunSummary, prediction: RecordedPrediction
) -> list[PredictionPair]:
    """What a run's figures and the prediction in its directory say of the same quantities."""
    truths = _truths(manifest, summary)
    pairs = []
    for quantity in PREDICTED:
        predicted, truth = getattr(prediction, quantity), truths[quantity]
        if predicted is None or truth is None or not truth > 0 or not math.isfinite(truth):
            continue
        pairs.append(
            PredictionPair(
                name=manifest.run_id or MISSING,
                device=prediction.device or MISSING,
                tier=prediction.tier or MISSING,
                model_kind=model_kind(manifest.workload),
                quantity=quantity,
                predicted=predicted,
                low=getattr(prediction.low, quantity),
                high=getattr(prediction.high, quantity),
                truth=truth,
            )
        )
    return pairs


def score_predictions(pairs: Iterable[PredictionPair]) -> PredictionCard:
    """Errors and whether ranges held, row by row and by device, tier and quantity."""
    import polars as pl

    text, number = pl.String, pl.Float64
    fields = dict.fromkeys(("name", "device", "tier", "model_kind", "quantity"), text)
    figures = dict.fromkeys(("predicted", "low", "high", "truth"), number)
    rows = pl.DataFrame([vars(pair) for pair in pairs], schema={**fields, **figures}, orient="row")
    rows = rows.with_columns(
        error=pl.col("predicted") / pl.col("truth") - 1,
        held=pl.col("truth").is_between(pl.col("low"), pl.col("high")),
        quantity=pl.col("quantity").cast(pl.Enum(PREDICTED)),
    ).sort(pl.col("error").abs(), pl.col("name"), descending=[True, False])
    error, by = pl.col("error"), ["device", "tier", "quantity"]
    groups = (
        rows.group_by(by)
        .agg(
            count=pl.len(),
            median_error=error.abs().median(),
            # Rows come worst first.
            worst_error=error.first(),
            bias_error=error.mean(),
            held=pl.col("held").sum(),
            ranged=pl.col("held").count(),
        )
        .sort(by)
    )
    return PredictionCard(rows=rows, groups=groups)


def _truths(manifest: Manifest, summary: RunSummary) -> dict[str, float | None]:
    step_s, power_w = summary.step_time.median_s, _device_power_w(manifest, summary)
    return {
        "step_s": step_s,
        "examples_per_s": summary.examples_per_s,
        "energy_j": None if step_s is None or power_w is None else step_s * power_w,
    }


def _device_power_w(manifest: Manifest, summary: RunSummary) -> float | None:
    """Mean power in training of what the run computed on; None where it has no meter."""
    setting = manifest.setting.resolved
    if setting is None:
        return None
    if setting.accelerators:
        wanted = f"gpu{setting.accelerators[0].index}"
        found = [one for one in summary.energy if one.source == wanted]
    else:
        # A machine's packages are apart from each other, unlike other sources.
        found = [one for one in summary.energy if one.source.startswith(_CPU_SOURCE)]
    powers = [one.mean_power_w for one in found]
    known = [power for power in powers if power is not None]
    return sum(known) if known and len(known) == len(powers) else None
