"""Traced step times scaled to those of untraced steps, and the update shared over the layers.

Whole nanoseconds throughout: what is scaled or shared still sums exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainload.analyse.attribution.partition import REMAINDER, Part, StepParts
from trainload.analyse.warmup import find_warmup

if TYPE_CHECKING:
    import polars as pl

NEAR_STEPS = 100
"""Steps to either side of a window that count as near it."""
ENOUGH_STEPS = 20
"""With so many untraced steps near a window, no farther one is used."""


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """The parts of a step, scaled to the time of an untraced one."""

    parts: Mapping[Part, int]
    all_scaled: bool
    """Whether kernel and copy times were scaled too, since tracing slowed those as well."""


def share(total: int, weights: Sequence[int]) -> list[int]:
    """A whole number split by weights; the parts sum to it exactly (largest remainder)."""
    whole = sum(weights)
    if whole <= 0:
        raise ValueError("weights must sum to more than nothing")
    parts = [total * weight // whole for weight in weights]
    left = total - sum(parts)
    order = sorted(range(len(weights)), key=lambda i: (-(total * weights[i] % whole), i))
    for i in order[:left]:
        parts[i] += 1
    return parts


def correct(parts: Mapping[Part, int], untraced_ns: int, *, on_cpu: bool = False) -> Corrected:
    """Scale a step's idle time and remainder so that the step takes as long as untraced.

    Work and waits for input are kept; where these alone take longer, everything is scaled. So it
    is on a CPU for a step that was faster than the untraced ones: the machine was less busy then,
    and Python between the operations did not wait for anything.
    """
    traced = sum(parts.values())
    if on_cpu and 0 < traced < untraced_ns:
        keys = list(parts)
        scaled = share(untraced_ns, [parts[key] for key in keys])
        return Corrected(parts=dict(zip(keys, scaled, strict=True)), all_scaled=False)
    flexible = [part for part in parts if _is_flexible(part)]
    slack = sum(parts[part] for part in flexible)
    kept = traced - slack
    if untraced_ns < kept:
        keys = list(parts)
        scaled = share(untraced_ns, [parts[key] for key in keys])
        return Corrected(parts=dict(zip(keys, scaled, strict=True)), all_scaled=True)
    result = dict(parts)
    if slack:
        scaled = share(untraced_ns - kept, [parts[key] for key in flexible])
        result.update(zip(flexible, scaled, strict=True))
    elif untraced_ns > kept:
        result[REMAINDER] = untraced_ns - kept
    return Corrected(parts=result, all_scaled=False)


def _is_flexible(part: Part) -> bool:
    return part.kind in ("remainder", "python") or (part.kind == "idle" and part.cause != "input")


def share_update(step: StepParts, modules: Sequence[Mapping[str, Any]]) -> None:
    """Give the optimizer's work to the layers by their count of parameters that it changes.

    Optimizers work on all tensors at once, so that no event says whose. Where no module tells what
    is changed, all parameters count. Without a table of modules, or in one without parameters, it
    stays a part of no layer.
    """
    whole = Part("layer", phase="update")
    told = "updated" if any(m.get("updated") for m in modules) else "parameters"
    holders = [m for m in modules if m.get(told)]
    if not holders or whole not in step.parts:
        return
    total = step.parts.pop(whole)
    step.calls.pop(whole, None)
    times = share(total, [m[told] for m in holders])
    for module, time_ns in zip(holders, times, strict=True):
        step.add(Part("layer", module["root"], module["layer"], "update"), time_ns)


def untraced_step_ns(
    steps: pl.DataFrame, disturbed: Sequence[tuple[int, int]], first: int, last: int
) -> int | None:
    """Median time of the undisturbed steps, near a window where there are enough; None without.

    Warm-up is left out unless nothing else is left.
    """
    import polars as pl

    timed = steps.sort("start_s").with_row_index("row").drop_nulls("step_s")
    for begin, end in disturbed:
        timed = timed.filter(~pl.col("step").is_between(begin, end))
    warm = timed.filter(pl.col("row") >= find_warmup(steps).steps)
    timed = warm if not warm.is_empty() else timed
    near = timed.filter(pl.col("step").is_between(first - NEAR_STEPS, last + NEAR_STEPS))
    times = (near if near.height >= ENOUGH_STEPS else timed)["step_s"]
    median = times.median()
    if not isinstance(median, float) or median <= 0:
        return None
    return round(median * 1e9)
