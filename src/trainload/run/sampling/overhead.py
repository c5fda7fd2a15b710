"""The sampler's own cost, from step times with it paused and active; pure arithmetic.

Each pause is compared with the active time of its own length just before and just after it, so
that slow drift of the machine cancels.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence

from trainload.intervals import ratio_interval
from trainload.record import Block, OverheadMeasurement

MIN_STEPS = 3
"""Whole steps needed on each side of a comparison."""
MIN_COMPARISONS = 6
"""The fewest of which trimming leaves the four values that an interval needs."""

METHOD = (
    "mean step time with the sampler active over mean step time with it paused; "
    "pauses alternate with active blocks, each pause against its neighbours; "
    "trimmed mean of log ratios"
)


def measure_overhead(
    starts_s: Sequence[float],
    ends_s: Sequence[float],
    pauses: Sequence[tuple[float, float]],
    origin_s: float,
) -> OverheadMeasurement:
    """Overhead from step spans and pauses, all on the monotonic clock, in time order."""
    blocks = tuple(
        Block(start_s=round(a - origin_s, 6), end_s=round(b - origin_s, 6)) for a, b in pauses
    )
    if not pauses:
        return OverheadMeasurement(
            verdict="not_measured", reason="the run ended before the first pause", method=METHOD
        )
    log_ratios = [
        ratio
        for pause in pauses
        if (ratio := _log_ratio(starts_s, ends_s, pause[0], pause[1])) is not None
    ]
    if len(log_ratios) < MIN_COMPARISONS:
        return OverheadMeasurement(
            verdict="not_measured",
            reason=f"{len(log_ratios)} usable comparisons, at least {MIN_COMPARISONS} needed: "
            "the run was too short or its steps too long",
            observations=len(log_ratios),
            method=METHOD,
            blocks=blocks,
        )
    interval = ratio_interval(log_ratios)
    assert interval is not None, "MIN_COMPARISONS leaves enough after trimming"
    reason = None
    if interval.contains(1.0):
        reason = "the interval contains no overhead at all"
    elif interval.high < 1.0:
        reason = "steps were faster with the sampler than without: the machine itself varied"
    return OverheadMeasurement(
        verdict="resolved" if reason is None else "not_resolvable",
        reason=reason,
        ratio=round(interval.value, 6),
        low=round(interval.low, 6),
        high=round(interval.high, 6),
        confidence=interval.confidence,
        observations=interval.observations,
        method=METHOD,
        blocks=blocks,
    )


def _log_ratio(
    starts_s: Sequence[float], ends_s: Sequence[float], begin_s: float, end_s: float
) -> float | None:
    """Log of active over paused mean step time around one pause; None with too few steps."""
    length_s = end_s - begin_s
    paused = _steps_within(starts_s, ends_s, begin_s, end_s)
    before = _steps_within(starts_s, ends_s, begin_s - length_s, begin_s)
    after = _steps_within(starts_s, ends_s, end_s, end_s + length_s)
    active = (before[0] + after[0], before[1] + after[1])
    if paused[0] < MIN_STEPS or before[0] < 1 or after[0] < 1 or active[0] < MIN_STEPS:
        return None
    return math.log((active[1] / active[0]) / (paused[1] / paused[0]))


def _steps_within(
    starts_s: Sequence[float], ends_s: Sequence[float], begin_s: float, end_s: float
) -> tuple[int, float]:
    """Number and total duration of the steps that lie wholly inside a span."""
    first = bisect_left(starts_s, begin_s)
    count, total_s = 0, 0.0
    for position in range(first, len(ends_s)):
        if ends_s[position] > end_s:
            break
        count += 1
        total_s += ends_s[position] - starts_s[position]
    return count, total_s
