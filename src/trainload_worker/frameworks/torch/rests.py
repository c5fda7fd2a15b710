"""Decides when short steps of a training are let pass unseen; sees and times none itself.

Being told of a step's calls, its backward pass and its loss costs the host of a GPU some 80 µs,
since its caches are full of other things: much of a step of 2 ms. Where steps are short and all
alike, a few of every half second are seen, and the others counted and timed alone. A phase may be
missed meanwhile; a pause that nothing explains has all steps seen until the next such pause.
"""

from __future__ import annotations

import math
from typing import Literal, Sequence

SHORT_S = 0.01
"""Steps from this time on are all seen."""
SEEN_S, SEEN_STEPS = 0.05, 8
"""Of each period that long, and so many steps, before a rest."""
PAUSE_STEPS, PAUSE_S = 10, 0.05
"""A step that took so many others' time, and this much, may have had something else in it."""
Pauses = Literal["unknown", "asked", "harmless", "phases"]


class Rests:
    """Keeps in mind what pauses of the program were found to be."""

    def __init__(self) -> None:
        self._pauses: Pauses = "unknown"
        self._phases = 0

    def begin_s(self, now_s: float, step_s: float) -> float:
        """When the next rest is to begin, after steps of this mean time; infinite: not at all."""
        if step_s >= SHORT_S or self._pauses in ("asked", "phases"):
            return math.inf
        return now_s + max(SEEN_S, SEEN_STEPS * step_s)

    def note_rest(self, times_s: Sequence[float], phases: int) -> None:
        """Steps of a rest took so long; so many phases were seen in the program so far."""
        if self._pauses == "unknown" and has_pause(times_s) and phases == self._phases:
            self._pauses = "asked"
        self._phases = phases

    def note_seen(self, times_s: Sequence[float], phases: int) -> None:
        """The same of steps that were seen; a pause among them tells what the others were."""
        if self._pauses == "asked" and has_pause(times_s):
            self._pauses = "harmless" if phases == self._phases else "phases"
        self._phases = phases


def has_pause(times_s: Sequence[float]) -> bool:
    """Whether one of these took far longer than the others."""
    if len(times_s) < 2:
        return False
    longest_s = max(times_s)
    others_s = (sum(times_s) - longest_s) / (len(times_s) - 1)
    return longest_s > max(PAUSE_STEPS * others_s, PAUSE_S)
