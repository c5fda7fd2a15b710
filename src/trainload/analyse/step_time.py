"""How long a step takes once warm, and how many examples such steps trained on.

Reads the steps table alone; what the batches were like is told by the caller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """Seconds a step after warm-up, measured; None without such a step."""

    steps: int
    median_s: float | None = None
    mean_s: float | None = None
    p5_s: float | None = None
    p95_s: float | None = None
    total_s: float = 0.0


def summarise_step_time(steps: pl.DataFrame, warmup_steps: int) -> StepTime:
    """Seconds a step after the first `warmup_steps`; every figure None where no step is left."""
    times = steps.sort("start_s")["step_s"].slice(warmup_steps).drop_nulls()
    if times.is_empty():
        return StepTime(steps=0)
    return StepTime(
        steps=len(times),
        median_s=times.quantile(0.5, "linear"),
        mean_s=float(times.sum()) / len(times),
        p5_s=times.quantile(0.05, "linear"),
        p95_s=times.quantile(0.95, "linear"),
        total_s=float(times.sum()),
    )


def count_examples(
    steps: pl.DataFrame, warmup_steps: int, batch_size: int, train_rows: int, steps_per_epoch: int
) -> int:
    """Examples in the steps after the first `warmup_steps`, an epoch's last batch as it was.

    Only `max_steps` cuts an epoch short, and only the last one, so a step's place in its epoch
    follows from its number.
    """
    import polars as pl

    kept = steps.sort("start_s").slice(warmup_steps).drop_nulls("step_s")
    ends = int(kept.select((pl.col("step") % steps_per_epoch == steps_per_epoch - 1).sum()).item())
    last_rows = train_rows - (steps_per_epoch - 1) * batch_size
    return (kept.height - ends) * batch_size + ends * last_rows
