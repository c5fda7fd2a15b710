"""Where a row of measurements changes its level: splits found one by one, each tested.

Plain numbers in, positions out; knows no run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SHORTEST = 3
"""Values on either side of a change: fewer could be outliers."""
PERMUTATIONS = 1999
_BOOTSTRAPS = 400
_SEED = 20261
"""Fixed, so that the same runs give the same answer."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """A change of level before the value at `at`."""

    at: int
    earliest: int
    latest: int
    """Where it lies with 95 %, by drawing anew from both sides."""
    p_value: float


def find_splits(values: Sequence[float], chance: float = 0.05) -> list[Split]:
    """The changes of level in order of time.

    Binary segmentation (Vostrikova 1981): the split whose two-sample t is largest, tested against
    the largest of the same values in random orders, which asks nothing of their distribution but
    that equal ones are exchangeable; then the same on both sides of it. The chance is halved with
    each level of halving, so that all of them together keep it.
    """
    import numpy as np

    found: list[Split] = []
    numbers = np.asarray(values, dtype=float)

    def search(first: int, beyond: int, allowed: float) -> None:
        part = numbers[first:beyond]
        if len(part) < 2 * SHORTEST:
            return
        draw = np.random.default_rng([_SEED, first, beyond])
        at, largest = _largest(part[None, :])
        shuffled = draw.permuted(np.tile(part, (PERMUTATIONS, 1)), axis=1)
        # Equal values in another order give sums that differ in their last digits.
        reached = int((_largest(shuffled)[1] >= largest[0] * (1 - 1e-9)).sum())
        p_value = (1 + reached) / (1 + PERMUTATIONS)
        if largest[0] <= 0 or p_value > allowed:
            return
        place = int(at[0])
        found.append(_placed(part, place, p_value, first, draw))
        search(first, first + place, allowed / 2)
        search(first + place, beyond, allowed / 2)

    search(0, len(numbers), chance)
    return sorted(found, key=lambda split: split.at)


def _largest(rows: Any) -> tuple[Any, Any]:
    """Of each row the split with the largest |t|, and that; 0 where a row does not vary."""
    import numpy as np

    count = rows.shape[1]
    sums = np.cumsum(rows, axis=1)
    squares = ((rows - rows.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    sizes = np.arange(SHORTEST, count - SHORTEST + 1)
    left = sums[:, sizes - 1]
    gaps = left / sizes - (sums[:, -1:] - left) / (count - sizes)
    between = gaps**2 * sizes * (count - sizes) / count
    within = np.maximum(squares[:, None] - between, 1e-12 * squares[:, None])
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(squares[:, None] > 0, np.sqrt(between / within * (count - 2)), 0.0)
    best = t.argmax(axis=1)
    return sizes[best], t[np.arange(len(t)), best]


def _placed(part: Any, place: int, p_value: float, first: int, draw: Any) -> Split:
    import numpy as np

    left, right = part[:place], part[place:]
    drawn = np.hstack(
        [
            draw.choice(left, (_BOOTSTRAPS, len(left))),
            draw.choice(right, (_BOOTSTRAPS, len(right))),
        ]
    )
    places, _ = _largest(drawn)
    low, high = np.quantile(places, [0.025, 0.975], method="nearest")
    return Split(
        at=first + place,
        earliest=first + min(int(low), place),
        latest=first + max(int(high), place),
        p_value=p_value,
    )
