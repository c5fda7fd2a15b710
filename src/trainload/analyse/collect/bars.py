"""What a progress bar's clock and its rate say together; knows no log's wording.

A bar shows whole seconds, and a rate to two decimals. Where the rate is that of the whole bar so
far, both together tell the time passed far more finely than the clock alone.
"""

from __future__ import annotations

from trainload.analyse.collect.groups import Reading

RATE_STEP = 0.01
"""tqdm prints a rate, or seconds an iteration, to two decimals."""
FINE_ENOUGH = 0.1
"""Share of an iteration's time by which rounding may mislead, at most."""


class BarPace:
    """The time passed in one bar, and of its iterations; seconds since the bar began."""

    def __init__(self) -> None:
        self._done = 0.0
        self._elapsed_s = 0.0
        self._error_s = 0.0
        self._first_s: float | None = None

    def elapsed_s(self, clock_s: float, done: float, row: Reading) -> float:
        """Time since the bar began: by its rate where that agrees with its clock, else the clock's.

        tqdm's and Rich's clocks leave fractions of a second away.
        """
        found = _by_mean(done, row)
        if found is None:
            return clock_s
        elapsed_s, error_s = found
        if not clock_s - error_s <= elapsed_s <= clock_s + 1 + error_s:
            return clock_s  # not the rate of the whole bar
        return min(max(elapsed_s, clock_s), clock_s + 1)

    def iteration_s(self, done: float, row: Reading) -> float | None:
        """Mean of the iterations since the latest row that told it, from the whole bar's rate.

        None where too few were done for the printed digits to tell.
        """
        found = _by_mean(done, row)
        if found is None or done <= self._done:
            return None
        elapsed_s, error_s = found
        gone_s, count = elapsed_s - self._elapsed_s, done - self._done
        if gone_s <= 0 or error_s + self._error_s > FINE_ENOUGH * gone_s:
            return None
        self._done, self._elapsed_s, self._error_s = done, elapsed_s, error_s
        return gone_s / count

    def keras_s(self, done: float, row: Reading) -> float | None:
        """Time since the epoch began, as Keras tells it; None where its first step's is not known.

        Its mean leaves the first step out, in which the model is built, and its whole epoch is
        rounded to a second.
        """
        mean_s, epoch_s = row["later_mean_time_s"], row.get("epoch_time_s")
        if done <= 1:
            self._first_s = mean_s
        if epoch_s is None:
            return None if self._first_s is None else self._first_s + (done - 1) * mean_s
        unit_s = 1.0 if mean_s >= 1 else 1e-3 if mean_s >= 1e-3 else 1e-6
        if (done - 1) * unit_s > 1:
            return epoch_s  # the mean is rounded more coarsely than the whole
        told_s = (mean_s if self._first_s is None else self._first_s) + (done - 1) * mean_s
        return min(max(told_s, epoch_s - 0.5), epoch_s + 0.5)


def _by_mean(done: float, row: Reading) -> tuple[float, float] | None:
    """Seconds since the bar began by its mean, and how far rounding may have moved them."""
    half = RATE_STEP / 2
    if "mean_rate_per_s" in row:
        rate = row["mean_rate_per_s"]
        return done / rate, done * half / rate**2
    if "mean_time_s" in row:
        return done * row["mean_time_s"], done * half
    return None
