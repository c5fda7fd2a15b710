"""Whether the first choice can be told from the others by their ranges, and what would tell.

Ranges of two kinds of device are taken as independent; what one kind of device has in common with
itself drops out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainload.predict.transfer import WITHIN
from trainload.predict.types import Ranged
from trainload.recommend.types import Doubt, Rival, spread_of

if TYPE_CHECKING:
    from trainload.recommend.types import Objective, Plan

CALIBRATED = 0.08
"""Spread of a figure of a calibrated device: 6 % of its own and what neighbours leave."""
_COUNTS_APART = 0.12
"""Between different numbers of one kind: what the exchange of gradients is not known by."""
MOST_RIVALS = 5


def find_doubt(plans: Sequence[Plan], objective: Objective) -> Doubt | None:
    """The doubt about the first of ranked plans; None where there is none."""
    if not plans:
        return None
    first = plans[0]
    rivals = sorted(
        (Rival(plan=one, chance=_chance(first, one, objective)) for one in plans[1:]),
        key=lambda rival: -rival.chance,
    )
    overlapping = [one for one in rivals if _overlap(first, one.plan, objective)]
    if not overlapping:
        return Doubt(decided=True, rivals=(), measurement=None)
    return Doubt(
        decided=False,
        rivals=tuple(overlapping[:MOST_RIVALS]),
        measurement=_measurement(first, [one.plan for one in overlapping], objective),
    )


def _spread(first: Plan, other: Plan, ends: tuple[float, float]) -> float:
    """Of the ratio of both, each with the spread given."""
    if first.device.name == other.device.name:
        return 0.0 if first.count == other.count else _COUNTS_APART
    return math.hypot(*ends)


def _figures(first: Plan, other: Plan, objective: Objective) -> tuple[Ranged, Ranged]:
    one, two = first.figure(objective), other.figure(objective)
    assert one is not None and two is not None, "a choice has its objective's figure"
    return one, two


def _chance(first: Plan, other: Plan, objective: Objective) -> float:
    """That the other one is better after all."""
    one, two = _figures(first, other, objective)
    if one.value <= 0 or two.value <= 0:
        return 0.5 if one.value == two.value else 0.0
    distance = math.log(two.value / one.value)
    spread = _spread(first, other, (spread_of(one), spread_of(two)))
    if spread <= 0:
        return 0.5 if distance <= 0 else 0.0
    return 0.5 * math.erfc(distance / spread / math.sqrt(2))


def _overlap(first: Plan, other: Plan, objective: Objective) -> bool:
    one, two = _figures(first, other, objective)
    if first.device.name == other.device.name:
        factor = math.exp(WITHIN * _spread(first, other, (0.0, 0.0)))
        return two.value <= one.value * factor
    return two.low <= one.high


def _measurement(first: Plan, rivals: Sequence[Plan], objective: Objective) -> str:
    """The calibration that leaves the fewest overlaps, and how many it leaves."""
    devices = {plan.device.name: plan for plan in (first, *rivals) if plan.tier != "calibrated"}
    if not devices:
        return (
            "a few steps on each of them: trainload run there; both are calibrated, and their "
            "ranges still overlap"
        )

    def left(name: str) -> int:
        return sum(_overlap_after(first, one, objective, {name}) for one in rivals)

    best = min(devices, key=left)
    rest = left(best)
    text = f"trainload calibrate on a {devices[best].device.title} (3 minutes)"
    if rest == 0:
        return f"{text} would decide it"
    both = sum(
        _overlap_after(first, one, objective, {first.device.name, one.device.name})
        for one in rivals
    )
    said = (
        "would leave all of them open"
        if rest == len(rivals)
        else f"would leave {rest} of {len(rivals)} open"
    )
    if both < rest:
        return f"{text} {said}, calibrating the others as well {both or 'none'}"
    return f"{text} {said}: then a few steps on each decide, trainload run there"


def _overlap_after(first: Plan, other: Plan, objective: Objective, measured: set[str]) -> bool:
    """Whether ranges still overlap once some devices are calibrated and give the same figure."""
    one, two = _figures(first, other, objective)
    ends = []
    for plan, figure in ((first, one), (other, two)):
        spread = spread_of(figure)
        ends.append(min(spread, CALIBRATED) if plan.device.name in measured else spread)
    if first.device.name == other.device.name:
        return _overlap(first, other, objective)
    low = two.value / math.exp(WITHIN * ends[1])
    return low <= one.value * math.exp(WITHIN * ends[0])
