"""When a study ends: which cells want another repetition. One call decides; runs nothing.

`enough` holds the statistics; here they are asked with the values of each cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from trainload.study.file import StudyKeys

CellValues = Mapping[str, Sequence[float]]


class Stopping(Protocol):
    """Decides after every block which cells are repeated once more."""

    @property
    def metric(self) -> str | None:
        """The figure whose values it wants; None where it only counts them."""

    @property
    def most(self) -> int:
        """Repetitions that no cell exceeds."""

    def next(self, values: CellValues) -> frozenset[str]:
        """Identities of the cells that want another repetition; `values` has every live cell."""

    def reasons(self, values: CellValues) -> Mapping[str, str]:
        """What is known of each cell, in words; empty where there is nothing to say."""


@dataclass(frozen=True)
class FixedRepetitions:
    """Every cell so many times."""

    most: int
    metric: str | None = None

    def next(self, values: CellValues) -> frozenset[str]:
        """The cells with fewer values than asked for."""
        return frozenset(cell for cell, known in values.items() if len(known) < self.most)

    def reasons(self, values: CellValues) -> Mapping[str, str]:  # noqa: ARG002 - it counts alone
        """Nothing: the number was fixed beforehand."""
        return {}


def least_repetitions(keys: StudyKeys) -> int:
    """How often every cell is run that does not end early."""
    asked = keys.stopping
    return keys.repetitions if asked is None else asked.warmup + asked.minimum


def choose_stopping(keys: StudyKeys) -> Stopping:
    """The rule that a study file asks for."""
    if keys.stopping is None:
        return FixedRepetitions(keys.repetitions)
    from trainload.study.until_enough import UntilEnough

    return UntilEnough(keys.stopping)
