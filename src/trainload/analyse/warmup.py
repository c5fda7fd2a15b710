"""Which steps are warm-up and left out of step times; the rule is stated with the count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

WARMUP_FRACTION = 0.01
WARMUP_S = 1.0
WARMUP_MOST_FRACTION = 0.1

RULE = (
    "the first 1 % of steps or those begun in the first 1 s of training, whichever is more; "
    "at least 1 step, at most 10 % of steps"
)


@dataclass(frozen=True, kw_only=True)
class WarmUp:
    """Number of warm-up steps at the start of a run, and the rule that chose it."""

    steps: int
    rule: str = RULE


def find_warmup(steps: pl.DataFrame) -> WarmUp:
    """The warm-up of a run's steps; 0 steps with fewer than two, where nothing would be left."""
    count = steps.height
    if count < 2:
        return WarmUp(steps=0)
    start_s = steps["start_s"].min()
    assert isinstance(start_s, float)
    early = int((steps["start_s"] < start_s + WARMUP_S).sum())
    wanted = max(math.ceil(WARMUP_FRACTION * count), early)
    return WarmUp(steps=max(1, min(wanted, int(WARMUP_MOST_FRACTION * count))))
