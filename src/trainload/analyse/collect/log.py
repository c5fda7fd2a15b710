"""A training log turned into rows of iterations and one row about the experiment; streams.

Writes nothing: the report room makes the CSV files.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainload.analyse.collect.choose import Choice
from trainload.analyse.collect.curve import ProgressCurve
from trainload.analyse.collect.groups import COUNTERS, PROGRESS, Reading
from trainload.analyse.collect.lines import LogLine, LogLines
from trainload.analyse.collect.timeline import Place, Timeline

Cell = float | int | str | None
LEADING = ("epoch", "iteration", "time_s", "elapsed_s")
SETTLING_ROWS = 12
"""States of a smoothed bar (tqdm's factor is 0.3) until 1 % of what lay before is left in it."""
QUARTERS = (25, 50, 75, 100)
_MARKERS = frozenset(COUNTERS)
_REDRAWN = frozenset((*COUNTERS, "elapsed_s"))
_OF_BAR = frozenset(("iteration", "iterations", "elapsed_s", "time_s", "rate_per_s"))
_CLOCKS = ("elapsed_s", "epoch_elapsed_s", "later_mean_time_s")
_PACES = ("time_s", "rate_per_s", "mean_time_s", "mean_rate_per_s")
_FACT_LINES = 10_000
_FACTS: Mapping[str, re.Pattern[str]] = {
    "batch_size": re.compile(
        r"(?i)(?:^|[^a-z])(?:train_|total train |per_device_train_|instantaneous )?"
        r"batch[_ -]?size(?: per device)?['\"]?\s*[=:]\s*(\d{1,9})\b"
    ),
    "learning_rate": re.compile(
        r"(?i)(?:^|[^a-z_])(?:learning[_ -]rate|lr)['\"]?\s*[=:]\s*(\d*\.?\d+(?:e[-+]?\d+)?)"
    ),
    "model": re.compile(
        r"(?i)(?:^|[^a-z_])(?:arch|model|network)['\"]?\s*[=:]\s*['\"]?([\w.-]{1,80})"
    ),
    "optimizer": re.compile(r"(?i)(?:^|[^a-z_])optimizer['\"]?\s*[=:]\s*['\"]?([\w.-]{1,80})"),
}


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What a whole log says; a missing figure is None."""

    config: Mapping[str, str]
    pattern: str
    unit: str
    """What `done` and `total` count: iterations or epochs."""
    epochs: int | None
    done: float | None
    total: float | None
    total_time_s: float | None
    validation_time_s: float | None
    times_s: Mapping[int, float | None]
    """Time when so many percent of the iterations were done."""
    rows: int
    lines: int
    matched_lines: int
    notes: tuple[str, ...]

    def row(self, source: str) -> dict[str, Cell]:
        """The one row of `experiment.csv`."""
        return {
            "source": source,
            "pattern": self.pattern,
            **self.config,
            "epochs": self.epochs,
            f"{self.unit}_done": self.done,
            f"{self.unit}_total": self.total,
            "total_time_s": self.total_time_s,
            "validation_time_s": self.validation_time_s,
            **{f"time_at_{percent}_percent_s": time for percent, time in self.times_s.items()},
        }


class LogReading:
    """One pass over a log: iterate `rows()` to the end, then ask for `experiment()`."""

    def __init__(
        self,
        path: Path,
        choice: Choice,
        config: Mapping[str, str],
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._lines = LogLines(path)
        self._choice = choice
        self._config = dict(config)
        self._progress = progress
        self._curve = ProgressCurve()
        self._timeline = Timeline(choice, self._curve, _batch_size(config))
        self._facts: dict[str, str] = {}
        self._total_ns: int | None = None
        self._validation_ns: int | None = None
        self._progress_seen: float | None = None
        self._settling = 0
        self._seen = self._matched = self._rows = self._other_bars = self._redrawn = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the rows: the leading ones, what the pattern has, the line's number."""
        others = (
            c for c in self._choice.pattern.columns
            if c not in LEADING and c not in ("epochs", "iterations", "last_epoch")
        )  # fmt: skip
        return (*LEADING, *others, "line")

    def __enter__(self) -> LogReading:
        return self

    def __exit__(self, *_: object) -> None:
        self._curve.__exit__(None, None, None)

    def rows(self) -> Iterator[dict[str, Cell]]:
        """A row for each iteration (or epoch) printed, in the log's order."""
        pending: _Pending | None = None
        held: _Pending | None = None
        epoch: float | int | None = None
        for line in self._lines:
            self._seen += 1
            if self._progress and self._seen % 100_000 == 0:
                self._progress(self._seen)
            new = self._read(line)
            if new is None:
                continue
            epoch = new.reading.setdefault("epoch", epoch) if epoch is not None else (
                new.reading.get("epoch")
            )  # fmt: skip
            if self._choice.pattern.bar_follows:
                if PROGRESS in new.reading and pending is not None and pending.is_bar:
                    held = new if held is None else held.merged(new)
                    continue
                if held is not None and new.is_bar:
                    new.reading, held = {**held.reading, **new.reading}, None
            if pending is not None and pending.takes(new):
                self._redrawn += pending.repeats(new)
                pending.merge(new)
                continue
            if pending is not None:
                yield from self._finish(pending)
            pending = new
        if pending is not None:
            yield from self._finish(pending if held is None else pending.merged(held))

    def _read(self, line: LogLine) -> _Pending | None:
        read = self._choice.pattern.read_line(line.text)
        if read is None:
            if self._seen - self._matched <= _FACT_LINES:
                self._note_facts(line.text)
            return None
        reading, stamp = read
        if "last_epoch" in reading:
            reading["epochs"] = reading.pop("last_epoch") + 1
        bar = self._choice.bar
        if reading.get("iteration") == 0 and self._choice.pattern.first_iteration == 1:
            return None  # a bar just opened, or set back ahead of the next epoch
        if bar is not None and "iterations" in reading and (
            line.nested or reading["iterations"] != bar
        ):  # fmt: skip
            self._other_bars += 1
            # What is printed behind a validation's bar, on the same line, still counts.
            reading = {name: value for name, value in reading.items() if name not in _OF_BAR}
            if not reading:
                return None
        self._matched += 1
        at = self._choice.pattern.stamp_ns(line.text, stamp) if self._choice.stamped else None
        return _Pending(reading=reading, stamp=at, line=line.number)

    def _note_facts(self, text: str) -> None:
        for name, expression in _FACTS.items():
            if name not in self._facts:
                found = expression.search(text)
                if found:
                    self._facts[name] = found[1]
                    if name == "batch_size" and self._timeline.batch_size is None:
                        self._timeline.batch_size = _batch_size(self._facts)

    def _finish(self, pending: _Pending) -> Iterator[dict[str, Cell]]:
        reading = pending.reading
        time_s = self._timeline.advance(reading, pending.stamp, pending.line, pending.drawn)
        if PROGRESS in reading:
            self._progress_seen = max(self._progress_seen or 0.0, reading[PROGRESS])
        if "total_time_s" in reading:
            self._total_ns = (self._total_ns or 0) + round(reading["total_time_s"] * 1e9)
        if "validation_time_s" in reading:
            self._validation_ns = (self._validation_ns or 0) + round(
                reading["validation_time_s"] * 1e9
            )
        if _MARKERS.issuperset(reading) and not (pending.stamp and "iteration" in reading):
            return
        if self._choice.pattern.bar_follows and pending.is_bar:
            # The bar's rate is smoothed: an evaluation stays in it for a while.
            time_s = time_s if self._settling == 0 else None
            self._settling = max(self._settling - 1, 0)
            if "validation_loss" in reading:
                self._settling = SETTLING_ROWS
        self._rows += 1
        elapsed_ns = self._timeline.known_ns
        yield {
            **reading,
            "time_s": time_s,
            "elapsed_s": None if elapsed_ns is None else elapsed_ns / 1e9,
            "line": pending.line,
        }

    def experiment(self) -> Experiment:
        """The log as a whole; after `rows()` has ended."""
        timeline = self._timeline
        reached = timeline.position if timeline.position > 0 else None
        total = timeline.total if reached is not None else None
        total_ns: float | None = timeline.known_ns or None
        if self._total_ns is not None:
            total_ns = self._total_ns
        times = {p: self._time_at(p, total) for p in QUARTERS}
        if times[100] is None and self._total_ns is not None:
            times[100] = self._total_ns / 1e9  # the log itself says that training ended
        return Experiment(
            config={**self._facts, **self._config},
            pattern=self._choice.pattern.name,
            unit=self._choice.unit,
            epochs=timeline.epochs_total or timeline.epochs_seen or self._whole_epochs,
            done=_plain(reached),
            total=_plain(total),
            total_time_s=None if total_ns is None else total_ns / 1e9,
            validation_time_s=None if self._validation_ns is None else self._validation_ns / 1e9,
            times_s=times,
            rows=self._rows,
            lines=self._seen,
            matched_lines=self._matched,
            notes=(*self._lines.notes, *self._notes(total)),
        )

    @property
    def _whole_epochs(self) -> int | None:
        """Epochs by the progress that is printed with results."""
        return None if self._progress_seen is None else math.ceil(self._progress_seen)

    def _time_at(self, percent: int, total: float | None) -> float | None:
        if total is None or not self._timeline.timed:
            return None
        time_ns = self._curve.time_ns(total * percent / 100)
        # A clock that shows whole seconds says 0 for what it cannot tell.
        return time_ns / 1e9 if time_ns else None

    def _notes(self, total: float | None) -> Iterator[str]:
        timeline, faults = self._timeline, self._timeline.faults
        unit = self._choice.unit
        if not timeline.timed and self._total_ns is None:
            yield "no time is printed in this log: only its counters and losses are collected"
            if "samples_per_s" in self._choice.found and timeline.batch_size is None:
                yield "samples a second give a time where --config batch_size=… is stated"
        elif timeline.timed and not timeline.known_ns and not faults.missing_epochs:
            yield "the times printed are whole seconds, and each of them is 0: no time is known"
        if faults.resumed:
            yield (
                f"training starts again at an earlier place {_times(faults.resumed)}: "
                "the total holds the time of every attempt"
            )
        if faults.restarted:
            yield (
                f"iterations count from the start again {_times(faults.restarted)}: "
                "taken as new epochs"
            )
        if faults.clock_back:
            yield (
                f"the clock goes back {_times(faults.clock_back)}: no time is taken to have "
                "passed there, or the one printed for the iteration"
            )
        if faults.missing_epochs:
            yield (
                f"{faults.missing_epochs} epochs are missing from the log: the total time is "
                f"unknown; those printed took {timeline.elapsed_ns / 1e9:.6g} s"
            )
        if faults.filled:
            yield (
                f"in {faults.filled:,} rows the printed time stands for all iterations since "
                "the row before"
            )
        if self._choice.start:
            yield f"the log begins after about {self._choice.start:,} iterations"
        if self._other_bars:
            yield f"{self._other_bars:,} lines of progress bars of another length are left out"
        if self._redrawn:
            yield f"{self._redrawn:,} lines print an iteration again: the last of each is kept"
        last = self._curve.last
        if timeline.timed and total is not None and last is not None and last[0] < total:
            yield (
                f"the last known time is after {last[0]:,.6g} of {total:,.6g} {unit}: "
                "the time at 100 % is not known from the rows"
            )


@dataclass
class _Pending:
    """A row that may still be added to by the next line."""

    reading: Reading
    stamp: tuple[int, bool] | None
    line: int
    drawn: Reading = field(default_factory=dict)
    """Of a bar that was drawn several times at one iteration: its pace when first drawn there."""

    def takes(self, new: _Pending) -> bool:
        for counter in ("epoch", "iteration"):
            mine, other = self.reading.get(counter), new.reading.get(counter)
            if mine is not None and other is not None and mine != other:
                return False
        if "iteration" in new.reading and "iteration" in self.reading:
            return True
        return not (self.reading.keys() & new.reading.keys()) - _MARKERS

    def repeats(self, new: _Pending) -> bool:
        """Whether values are replaced, other than by a bar that is merely drawn again."""
        if self.is_bar and new.is_bar:
            return False
        shared = (self.reading.keys() & new.reading.keys()) - _REDRAWN
        return any(self.reading[name] != new.reading[name] for name in shared)

    def merge(self, new: _Pending) -> None:
        if _MARKERS.issuperset(self.reading):
            self.line = new.line
        if self.is_bar and new.is_bar:
            self._redraw()
        self.reading.update(new.reading)
        self.stamp = new.stamp or self.stamp

    def merged(self, new: _Pending) -> _Pending:
        """This row with what the next line adds."""
        self.merge(new)
        return self

    @property
    def is_bar(self) -> bool:
        """A state of a progress bar."""
        return "iterations" in self.reading and any(clock in self.reading for clock in _CLOCKS)

    def _redraw(self) -> None:
        """Keep the pace of the first drawing: validation may lie between it and the last."""
        for pace in _PACES:
            if pace in self.reading:
                self.drawn.setdefault(pace, self.reading[pace])


def _times(place: Place) -> str:
    """How often, and where first."""
    if place.count == 1:
        return f"at line {place.line}"
    return f"{place.count:,} times, first at line {place.line}"


def _batch_size(config: Mapping[str, str]) -> float | None:
    try:
        value = float(config.get("batch_size", ""))
    except ValueError:
        return None
    return value if 0 < value < 1e9 else None


def _plain(value: float | None) -> float | int | None:
    return int(value) if value is not None and value == int(value) else value
