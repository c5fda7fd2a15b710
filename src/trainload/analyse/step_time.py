"""How long a step takes once warm: the middle, the mean and the usual range."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

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

    def to_json(self) -> dict[str, Any]:
        """A JSON-able copy."""
        return asdict(self)


def summarise_step_time(steps: pl.DataFrame, warmup_steps: int) -> StepTime:
    """Step times after the first `warmup_steps` steps."""
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
