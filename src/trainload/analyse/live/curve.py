"""A curve over time that never grows beyond a number of points; knows no quantity."""

from __future__ import annotations

MOST_POINTS = 240
FIRST_WIDTH_S = 0.5
LATEST_S = 1e9
"""A reading beyond it, some thirty years, has no place: its clock was another."""


class TimeCurve:
    """Means over equal stretches of time; all stretches double when there would be too many."""

    def __init__(self, width_s: float = FIRST_WIDTH_S, most: int = MOST_POINTS) -> None:
        self._width_s = width_s
        self._most = most
        self._sums: list[float] = []
        self._counts: list[int] = []
        self.latest: float | None = None
        """The last value that was added."""

    def add(self, t_s: float, value: float) -> None:
        """Take a reading at a time since the run's start; one without a place is left out."""
        if not 0 <= t_s < LATEST_S:
            return
        while t_s >= self._width_s * self._most:
            self._double()
        at = int(t_s / self._width_s)
        missing = at + 1 - len(self._sums)
        if missing > 0:
            self._sums += [0.0] * missing
            self._counts += [0] * missing
        self._sums[at] += value
        self._counts[at] += 1
        self.latest = value

    def points(self) -> tuple[tuple[float, float], ...]:
        """Middle and mean of each stretch that has a reading, in order of time."""
        return tuple(
            ((at + 0.5) * self._width_s, total / count)
            for at, (total, count) in enumerate(zip(self._sums, self._counts, strict=True))
            if count
        )

    def _double(self) -> None:
        self._width_s *= 2
        self._sums = [sum(self._sums[at : at + 2]) for at in range(0, len(self._sums), 2)]
        self._counts = [sum(self._counts[at : at + 2]) for at in range(0, len(self._counts), 2)]
