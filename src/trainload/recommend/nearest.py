"""Demands that nothing keeps to: what comes nearest, and by how much it misses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainload.recommend.types import Nearest

if TYPE_CHECKING:
    from trainload.recommend.types import Rejection

MOST = 3
_KNOWN = ("deadline", "budget", "power", "memory")
"""Demands that a figure misses by so much; a missing price is no figure."""


def find_nearest(rejected: Sequence[Rejection]) -> tuple[Nearest, ...]:
    """The candidates that miss least: by the demand each misses by most, then by the amount."""
    told = [one for one in rejected if all(miss.demand in _KNOWN for miss in one.misses)]
    told = [one for one in told if all(miss.value is not None for miss in one.misses)]
    ordered = sorted(told, key=_distance)
    return tuple(
        Nearest(name=one.name, plan=one.plan, missed_by=tuple(m.reason for m in one.misses))
        for one in ordered[:MOST]
    )


def _distance(one: Rejection) -> tuple[bool, float, float]:
    """Those that fit first; a limit of 0 is missed infinitely by all, so then by the amount."""
    ratio = max((miss.ratio for miss in one.misses), default=0.0)
    amount = sum(miss.value or 0.0 for miss in one.misses if miss.ratio == math.inf)
    return one.plan is None, ratio, amount
