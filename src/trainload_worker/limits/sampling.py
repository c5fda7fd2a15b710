"""How figures are sampled: in rounds over all conditions, so that a neighbour's load meets each.

Knows no quantity and touches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Dict, List, Mapping, Sequence, Tuple

from trainload_worker.protocol.measure import Measured, Reading

Check = Callable[[], None]
Key = Tuple[Tuple[str, str], ...]
"""A condition: what was varied, and to which level."""


class Lacking(Exception):
    """A program cannot measure here; the text says why."""


@dataclass(frozen=True)
class Place:
    """Where and how programs measure."""

    folder: str
    """For files; on the drive that is measured."""
    cores: Tuple[int, ...]
    quick: bool
    check: Check
    """Raises where the measurement is to end."""

    @property
    def rounds(self) -> int:
        """Samples of a condition: enough for an interval, more in the whole form."""
        return 5 if self.quick else 9


def key(**levels: object) -> Key:
    """A condition by its levels, in words."""
    return tuple((name, str(level)) for name, level in levels.items())


def sample_rounds(
    conditions: Mapping[Key, Callable[[], float]], rounds: int, check: Check
) -> List[Reading]:
    """Each condition once a round; a first round that warms up is not kept."""
    values: Dict[Key, List[float]] = {one: [] for one in conditions}
    for turn in range(rounds + 1):
        for one, measure in conditions.items():
            check()
            found = measure()
            if turn:
                values[one].append(found)
    return [Reading(dict(one), tuple(found)) for one, found in values.items()]


def measured(
    program: str, unit: str, readings: Sequence[Reading], method: str, notes: Sequence[str] = ()
) -> Measured:
    """What a program found, as the word it is told by."""
    return Measured(program, unit, tuple(readings), method, tuple(notes))
