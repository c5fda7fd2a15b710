"""Where in training a row stands and how long it took to get there; whole nanoseconds.

Knows what the groups mean, and nothing of any log's wording or of files.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trainload.analyse.collect.bars import BarPace
from trainload.analyse.collect.choose import Choice
from trainload.analyse.collect.curve import ProgressCurve
from trainload.analyse.collect.groups import COUNTERS, MOST_SECONDS, PROGRESS, Reading
from trainload.analyse.collect.timestamps import DAY_NS

_NS = 1_000_000_000
_SINCE_START = ("elapsed_s", "epoch_elapsed_s", "mean_time_s", "later_mean_time_s")
_STRETCHES = (*_SINCE_START, "lap_s", "epoch_time_s")
"""Times that add up to the whole; where there are none, timestamps are better than single times."""


@dataclass
class Place:
    """How often something happened, and the line where it did first."""

    count: int = 0
    line: int | None = None

    def add(self, line: int) -> None:
        """Count one more."""
        self.count += 1
        self.line = self.line or line

    def __bool__(self) -> bool:
        return self.count > 0


@dataclass
class Faults:
    """What went against the order of time."""

    resumed: Place = field(default_factory=Place)
    """Training started again at an earlier place."""
    restarted: Place = field(default_factory=Place)
    """Iterations counted from the start again, and no epoch is printed."""
    clock_back: Place = field(default_factory=Place)
    missing_epochs: int = 0
    filled: int = 0
    """Rows whose printed time stands for the iterations since the row before as well."""


class Timeline:
    """Follows rows in the log's order; `curve` holds the points that are known."""

    def __init__(self, choice: Choice, curve: ProgressCurve, batch_size: float | None) -> None:
        self.curve = curve
        self.batch_size = batch_size
        self.faults = Faults()
        self.elapsed_ns = 0
        self.timed = False
        """A time was found at all."""
        self.length: float | None = None
        """Iterations of one epoch (or of all where no epochs are printed), as far as known."""
        self.epochs_total: int | None = None
        self._choice = choice
        self._by_stamp = choice.stamped and not choice.found.intersection(_STRETCHES)
        self._since_start = bool(choice.found.intersection(_SINCE_START))
        self._counts_iterations = choice.unit == "iterations"
        self._counts_progress = not self._counts_iterations and PROGRESS in choice.found
        self._base = 0.0 if self._since_start else -float(choice.start)
        self._epoch: int | None = None
        self._first_epoch: int | None = None
        self._epoch_start_ns = 0
        self._done = 0.0 if self._since_start else float(choice.start)
        self._first_done: float | None = None
        self._stride = 1.0
        self._epoch_ended = False
        self._offset_ns = 0
        self._raw_ns: int | None = None
        self._stamp_ns: int | None = None
        self._extra_epochs = 0
        self._bar = BarPace()
        if not self._by_stamp and not (self._since_start and choice.start):
            curve.add(0.0, 0)

    @property
    def position(self) -> float:
        """Iterations done since the log began; epochs where no iterations are printed."""
        return self._base + self._done

    @property
    def known_ns(self) -> int | None:
        """Time since the start; None where no time is printed or part of it is missing."""
        return self.elapsed_ns if self.timed and not self.faults.missing_epochs else None

    @property
    def epochs_seen(self) -> int | None:
        """Epochs from the first to the latest; None where they are not counted."""
        if self._epoch is None or self._first_epoch is None:
            return self._extra_epochs + 1 if self._extra_epochs else None
        return self._epoch - self._first_epoch + 1

    @property
    def total(self) -> float | None:
        """Iterations (or epochs) that the training has in all, as stated or else as reached."""
        reached = self.curve.last[0] if self.curve.last else self.position
        reached = max(reached, self.position)
        if not self._counts_iterations:
            if self._counts_progress or self.epochs_total is None or self._first_epoch is None:
                return reached
            first = min(self._first_epoch, 1)
            return max(reached, float(self.epochs_total - self._first_epoch + first))
        if self.length is None:
            return reached
        if self.epochs_total is None or self._first_epoch is None:
            return max(reached, self._base + self.length)
        first = min(self._first_epoch, 1)
        left = self.epochs_total - self._first_epoch + first
        return max(reached, left * self.length - (0 if self._since_start else self._choice.start))

    def advance(
        self, row: Reading, stamp: tuple[int, bool] | None, line: int, drawn: Reading | None = None
    ) -> float | None:
        """Take in one row; the time of one of its iterations in seconds where that is known.

        `drawn` is a bar's pace when its row's iteration was first drawn, where it was drawn again.
        """
        first = {**row, **(drawn or {})}
        self._take_totals(row)
        if row.get("epoch") is not None:
            self._enter_epoch(int(row["epoch"]), line)
        if self._epoch_ended and "epoch_time_s" in row:
            self.faults.resumed.add(line)  # the same epoch once more
            self._begin_epoch()
        delta = self._move(row, line)
        before_ns = self.elapsed_ns
        time_ns = self._iteration_ns(first)
        known = self._take_time(self._closed(row, drawn), stamp, line, delta, time_ns)
        if "epoch_time_s" in row:
            known = self._epoch_ended = True
            if not self._by_stamp and "elapsed_s" not in row:
                self.elapsed_ns = self._epoch_start_ns + _ns(self._epoch_s(row))
            self._done = max(self._done, self.length or 0.0, 0.0 if self._counts_iterations else 1)
        if known:
            self.timed = True
            if not self.faults.missing_epochs:
                self.curve.add(self.position, max(self.elapsed_ns, 0))
        if time_ns is None and delta > 0 and known and (self._by_stamp or "lap_s" in row):
            gone_ns = self.elapsed_ns - before_ns
            return gone_ns / delta / _NS if gone_ns > 0 else None
        return None if time_ns is None else first.get("time_s", time_ns / _NS)

    def _closed(self, row: Reading, drawn: Reading | None) -> Reading:
        """The row, its pace named as the whole bar's where it is: closing, tqdm draws that."""
        if not drawn or row.get("iteration") != row.get("iterations"):
            return row
        named = {"rate_per_s": "mean_rate_per_s", "time_s": "mean_time_s"}
        return {**row, **{named[name]: row[name] for name in named if name in row}}

    def _epoch_s(self, row: Reading) -> float:
        """The whole epoch, more finely than it is printed where the row tells."""
        told_s = self._bar.keras_s(self._done, row) if "later_mean_time_s" in row else None
        return row["epoch_time_s"] if told_s is None else told_s

    def _take_totals(self, row: Reading) -> None:
        if row.get("iterations"):
            self.length = float(row["iterations"])
        if row.get("epochs"):
            self.epochs_total = int(row["epochs"])

    def _enter_epoch(self, epoch: int, line: int) -> None:
        if epoch == self._epoch:
            return
        if self._epoch is None or self._first_epoch is None:
            self._epoch = self._first_epoch = epoch
            return
        length = self.length if self._counts_iterations else 1.0
        length = length or max(self._done, 1.0)
        if epoch > self._epoch:
            skipped = epoch - self._epoch - 1
            self._base += (skipped + 1) * length
            if skipped and not self._by_stamp and "elapsed_s" not in self._choice.found:
                self.faults.missing_epochs += skipped
        else:
            self.faults.resumed.add(line)
            self._first_epoch = min(self._first_epoch, epoch)
            self._base = (epoch - self._first_epoch) * length
        self._epoch = epoch
        self._begin_epoch()

    def _begin_epoch(self) -> None:
        self._done = 0.0
        self._bar = BarPace()
        self._epoch_start_ns = self.elapsed_ns
        self._epoch_ended = False

    def _move(self, row: Reading, line: int) -> float:
        """Iterations done since the row before; 0 where the row counts none."""
        if row.get("iteration") is not None:
            done = float(row["iteration"] + 1 - self._choice.first_iteration)
        elif self._counts_progress and PROGRESS in row:
            done = float(row[PROGRESS])
        elif self._choice.counts_rows and ("time_s" in row or "rate_per_s" in row):
            done = self._done + 1.0
        else:
            if not (self._counts_iterations or self._counts_progress) and row.keys() - COUNTERS:
                self._done = 1.0  # results of an epoch are printed at its end
            return 0.0
        if self._first_done is None:
            self._first_done = done
        if done < self._done:
            if self._epoch is None and self._counts_iterations and done <= self._first_done:
                # Counting from the start again without a printed epoch: a new one.
                self.faults.restarted.add(line)
                self._extra_epochs += 1
                self._base += self.length or self._done
                self._begin_epoch()
            else:
                self.faults.resumed.add(line)
                self._epoch_start_ns = self.elapsed_ns
                self._done = done - min(done, self._stride)
        delta, self._done = done - self._done, done
        self._stride = delta or self._stride
        return delta

    def _iteration_ns(self, row: Reading) -> int | None:
        if "time_s" in row:
            return _ns(row["time_s"])
        seconds = None
        clocked = "epoch_elapsed_s" in row or "elapsed_s" in row
        if clocked and ("mean_rate_per_s" in row or "mean_time_s" in row):
            seconds = self._bar.iteration_s(self._done, row)
        elif "later_mean_time_s" in row and "validation_loss" not in row:
            seconds = row["later_mean_time_s"]
        elif "rate_per_s" in row:
            seconds = 1.0 / row["rate_per_s"]
        elif "samples_per_s" in row and self.batch_size:
            seconds = self.batch_size / row["samples_per_s"]
        return _ns(seconds) if seconds is not None and seconds <= MOST_SECONDS else None

    def _take_time(
        self,
        row: Reading,
        stamp: tuple[int, bool] | None,
        line: int,
        delta: float,
        time_ns: int | None,
    ) -> bool:
        """Set the time that has passed; whether the row tells it."""
        if self._by_stamp:
            own_ns = round(delta * time_ns) if time_ns is not None else 0
            return stamp is not None and self._take_stamp(stamp, own_ns, line)
        if "elapsed_s" in row:
            raw_ns = _ns(self._bar.elapsed_s(row["elapsed_s"], self._done, row))
            if self._raw_ns is not None and raw_ns < self._raw_ns:
                self._offset_ns = self.elapsed_ns  # a process started anew counts from 0 again
            self._raw_ns = raw_ns
            self.elapsed_ns = self._offset_ns + raw_ns
            return True
        if "elapsed_s" in self._choice.found:
            return False
        if "epoch_elapsed_s" in row:
            gone_s = self._bar.elapsed_s(row["epoch_elapsed_s"], self._done, row)
            self.elapsed_ns = max(self.elapsed_ns, self._epoch_start_ns + _ns(gone_s))
            return True
        if "epoch_elapsed_s" in self._choice.found:
            return False
        if "mean_time_s" in row and self._done > 0:
            self.elapsed_ns = self._epoch_start_ns + round(self._done * _ns(row["mean_time_s"]))
            return True
        if "later_mean_time_s" in row:
            told_s = self._bar.keras_s(self._done, row)
            if told_s is not None:
                self.elapsed_ns = self._epoch_start_ns + _ns(told_s)
            return told_s is not None
        if "lap_s" in row:
            self.elapsed_ns += _ns(row["lap_s"])
            return True
        if time_ns is not None and delta > 0:
            self.faults.filled += delta > 1
            self.elapsed_ns += round(delta * time_ns)
            return True
        return False

    def _take_stamp(self, stamp: tuple[int, bool], own_ns: int, line: int) -> bool:
        """Add the time since the last stamp; `own_ns`, as printed, where stamps cannot tell."""
        stamp_ns, dateless = stamp
        gone_ns = own_ns
        if self._stamp_ns is None:
            if own_ns:
                self.curve.add(0.0, 0)
        else:
            gone_ns = stamp_ns - self._stamp_ns
            if dateless and gone_ns < -DAY_NS // 2:
                gone_ns += DAY_NS  # past midnight
            if gone_ns < 0:
                self.faults.clock_back.add(line)
                gone_ns = own_ns
        self.elapsed_ns += gone_ns
        self._stamp_ns = stamp_ns
        return True


def _ns(seconds: float) -> int:
    return round(seconds * _NS)
