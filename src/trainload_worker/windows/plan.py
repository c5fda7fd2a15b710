"""Decides when a few steps are traced, so that tracing stays within its budget; traces nothing.

One window comes early, whatever it costs, since without it nothing is known of the time of layers.
Every later one waits until all windows together, itself included, stay within the budget's share
of the training time: first one that watches memory, where that is asked for, then more of time.
Somebody who watches may ask for one more at once: it is had whatever it costs, and counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Callable, Sequence

FIRST_STEPS = 10
"""Steps before the first window: libraries choose their algorithms, allocators grow."""
FIRST_STEPS_SLOW, SLOW_S = 2, 20.0
"""Where steps are slow, fewer, once that long has passed."""
UNSETTLED_STEPS = 3
"""First steps that tell nothing of how long one takes."""
TELLING_STEPS, MOST_TELLING = 20, 40
"""Steps after a window that tell whether it left something behind: at least, and at most."""
NOISE = 0.1
"""Slower by less than this may be the machine itself."""
QUIET_STEPS = 5
"""Untraced steps between two windows, at least: they tell how long a step takes."""
FIRST_CHANCE, CHANCES = 32, 1.1
"""Later windows may open after so many steps, then after 1.1 times as many, and so on: windows thin
out over a long run, and processes that train together trace the same steps."""
MARGIN = 2 / 3
"""Part of the budget to plan with: what a window will cost is only known from the last one."""
ROUNDING_S = 1e-6
"""By which a moment worked out ahead may be late."""
MOST_BYTES = 256 * 1024 * 1024
"""Size of all windows together, above which there are no more."""
LONG_STEP_S = 1.0
"""From this step time on a window holds one step, and none to warm the tracer."""
LARGE_STEP_S = 0.01
"""On a device where a trace is dear the first window holds one step to use from this step time on:
what it costs goes by the operations traced, and it comes whatever it costs."""
LOOK_S = 1.0
"""How often it is looked whether somebody asks for a window."""
PURPOSES = ("time", "memory", "time")
"""Of the first windows, in order, unless told otherwise; every later one is like the last."""


@dataclass(frozen=True)
class WindowShape:
    """How many steps a window holds: first those that warm the tracer, then those to use."""

    purpose: str
    warm_steps: int
    steps: int


class WindowPlan:
    """Keeps account of time and cost; the caller tells it of steps and windows."""

    def __init__(
        self,
        budget: float,
        purposes: Sequence[str] = PURPOSES,
        *,
        rest_s: float = 0.0,
        asked: Callable[[], bool] | None = None,
    ) -> None:
        """`rest_s` is the least time between two windows; `asked` tells of a wish for one."""
        self._asked = asked
        self._wish = False
        self._wished = 0
        self._look_s = math.inf if asked is None else -math.inf
        self._budget = budget
        self._purposes = purposes
        self._rest_s = rest_s
        self._before: list[float] = []
        self._after: list[float] = []
        self._steps = 0
        self._start_s: float | None = None
        self._now_s = 0.0
        self._chance = FIRST_CHANCE
        self._quiet_from_s: float | None = None
        self._quiet_steps = 0
        self._last_cost_s = 0.0
        self._idle_until_s = -math.inf
        self._idle_until_step = 0
        self.dear = False
        """Whether a window costs so much that the first one is to be as short as can be."""
        self.windows = 0
        self.cost_s = 0.0
        self.bytes = 0

    @property
    def step_s(self) -> float | None:
        """Mean time of the untraced steps since the last window; None before the first."""
        if self._quiet_from_s is None or self._quiet_steps < 1:
            return None
        return (self._now_s - self._quiet_from_s) / self._quiet_steps

    def count_step(self, now_s: float) -> WindowShape | None:
        """Takes note of an untraced step; the window to open now, if one is due."""
        self._note_time(now_s - self._now_s)
        self._now_s = now_s
        self._steps += 1
        if self._start_s is None:
            self._start_s = now_s
        if self._quiet_from_s is None:
            # Neither the very first step nor the one that saved a window's trace is a usual one.
            self._quiet_from_s = now_s
            return None
        self._quiet_steps += 1
        if self._is_wished(now_s):
            self._wish = False
            self._wished += 1
            return self._shape("time")
        if self._is_due(now_s - self._start_s):
            return self._shape()
        self._look_ahead(self._start_s)
        return None

    def pass_step(self, now_s: float) -> bool:
        """Takes note of an untraced step after which no window can be due; else False, and the
        step is still to be counted. Cheap: most steps of a training are such."""
        if now_s >= self._look_s or self._wish:
            return False
        if now_s >= self._idle_until_s and self._steps + 1 >= self._idle_until_step:
            return False
        self._steps += 1
        self._quiet_steps += 1
        self._now_s = now_s
        return True

    def idle_until(self, now_s: float) -> float:
        """Until when no window is due, whatever steps pass till then; the past where that is not
        known. A wish of somebody who watches may wait that long."""
        if self._wish:
            return now_s
        steps_left = self._idle_until_step - self._steps - 1
        # Half of their time: steps may become shorter.
        return max(self._idle_until_s, now_s + steps_left * (self.step_s or 0.0) / 2)

    def pass_steps(self, count: int, now_s: float) -> None:
        """Takes note of untraced steps that have passed within that time."""
        self._steps += count
        self._quiet_steps += count
        self._now_s = now_s

    def note_window(self, begin_s: float, end_s: float, steps: int, size_bytes: int) -> float:
        """Takes note of a window's end; how much longer training took because of it."""
        self._after = []
        self._idle_until_s, self._idle_until_step = -math.inf, 0
        usual_s = self.step_s or 0.0
        self._last_cost_s = max(0.0, end_s - begin_s - steps * usual_s)
        self.cost_s += self._last_cost_s
        self.bytes += size_bytes
        self.windows += 1
        self._now_s = end_s
        self._steps += steps
        self._quiet_from_s, self._quiet_steps = None, 0
        return self._last_cost_s

    @property
    def slowdown(self) -> float | None:
        """Median step time after the last window over that before the first; None if not known.

        By the host's clock: at the start as after a window a device has nothing queued, so that
        the first steps of both are alike, and what slows the host's calls is seen.
        """
        if len(self._before) < UNSETTLED_STEPS or len(self._after) < TELLING_STEPS:
            return None
        return median(self._after) / max(median(self._before), 1e-9)

    def _note_time(self, step_s: float) -> None:
        if self.windows == 0:
            if self._steps > UNSETTLED_STEPS:
                self._before.append(step_s)
        elif self._quiet_steps > 0 and len(self._after) < MOST_TELLING:
            self._after.append(step_s)

    def exceeds(self, slowdown: float | None) -> bool:
        """Whether what tracing leaves behind is beyond the budget, and beyond a machine's noise."""
        return slowdown is not None and slowdown > 1 + max(self._budget, NOISE)

    def add_cost(self, longer_s: float) -> float:
        """Takes note of what the last window cost after its end; the part that counts."""
        counted_s = max(0.0, longer_s)
        self._last_cost_s += counted_s
        self.cost_s += counted_s
        return counted_s

    def _is_chance(self) -> bool:
        """Whether a later window may open at this very step."""
        while self._chance < self._steps:
            self._chance = math.ceil(self._chance * CHANCES)
        return self._chance == self._steps

    def _is_wished(self, now_s: float) -> bool:
        """Whether somebody asked for a window and one can be had; a wish waits until it can."""
        if now_s >= self._look_s and self._asked is not None:
            self._look_s = now_s + LOOK_S
            # Where files have grown too large nobody waits for one more.
            self._wish = (self._asked() or self._wish) and self.bytes < MOST_BYTES
        rested = self.windows == 0 or self._quiet_s >= self._rest_s
        return self._wish and rested and self._steps > UNSETTLED_STEPS

    @property
    def _quiet_s(self) -> float:
        """Time since the last window, or since the first step."""
        return 0.0 if self._quiet_from_s is None else self._now_s - self._quiet_from_s

    def _is_due(self, elapsed_s: float) -> bool:
        if self.windows == 0:
            slow = elapsed_s >= SLOW_S and self._steps >= FIRST_STEPS_SLOW
            return slow or self._steps >= FIRST_STEPS
        if self._quiet_s < self._rest_s:
            return False
        if self._quiet_steps < QUIET_STEPS and (self.step_s or 0.0) < LONG_STEP_S:
            return False
        return (
            (self._is_chance() or self.windows < len(self._purposes) - 1)
            and self.cost_s + self._last_cost_s <= MARGIN * self._budget * elapsed_s
            and self.bytes < MOST_BYTES
        )

    def _look_ahead(self, start_s: float) -> None:
        """Finds until when, or until which step, no window can be due and no time is to be noted.

        By the conditions of `_is_due`; what they say at that moment counts.
        """
        if self.windows == 0 or len(self._after) < MOST_TELLING:
            return
        share = MARGIN * self._budget
        if self.bytes >= MOST_BYTES or share <= 0:
            self._idle_until_s = math.inf
            return
        self._idle_until_s = start_s + (self.cost_s + self._last_cost_s) / share - ROUNDING_S
        if self.windows >= len(self._purposes) - 1:
            while self._chance <= self._steps:
                self._chance = math.ceil(self._chance * CHANCES)
            self._idle_until_step = self._chance

    def _shape(self, purpose: str | None = None) -> WindowShape:
        # Windows that were asked for take no planned one's place.
        planned = min(self.windows - self._wished, len(self._purposes) - 1)
        purpose = purpose or self._purposes[planned]
        step_s = self.step_s or 0.0
        if step_s >= LONG_STEP_S:
            return WindowShape(purpose, 0, 1)
        alone = purpose == "memory" or (self.dear and self.windows == 0 and step_s >= LARGE_STEP_S)
        return WindowShape(purpose, 1, 1 if alone else 2)
