"""Which pattern a log fits best, and what its first lines tell about counting; reads lines only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from trainload.analyse.collect.groups import PROGRESS, Reading
from trainload.analyse.collect.lines import LogLine
from trainload.analyse.collect.patterns import Pattern
from trainload.errors import UsageError

SAMPLED_LINES = 20_000
"""Lines the choice rests on; where nothing matches in them, the next as many."""
GENERAL_WEIGHT = 0.1


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A pattern and how this log counts."""

    pattern: Pattern
    matched: Mapping[str, int]
    """Lines of the sample that each pattern fitted."""
    sampled: int
    first_iteration: int
    """The number that this log gives to its first iteration: 0 or 1."""
    start: int
    """Iterations done before the log begins, as of a training that was resumed."""
    bar: int | None
    """Length of the training's progress bar, where bars of several lengths stand in the log."""
    found: frozenset[str]
    """Columns that were seen at least once."""
    stamped: bool
    """Matched lines carry timestamps."""

    @property
    def counts_rows(self) -> bool:
        """Each row is one iteration without a number: a time of its own, and nothing counted."""
        counted = self.found.intersection(("iteration", "epoch_time_s", PROGRESS))
        return not counted and bool(self.found.intersection(("time_s", "rate_per_s")))

    @property
    def unit(self) -> Literal["iterations", "epochs"]:
        """What places in this log are counted in."""
        return "iterations" if "iteration" in self.found or self.counts_rows else "epochs"


@dataclass
class _Tally:
    """Matches of one pattern in the sampled lines."""

    pattern: Pattern
    lines: int = 0
    stamps: int = 0
    found: set[str] = field(default_factory=set)
    iterations: list[int] = field(default_factory=list)
    bars: dict[int, list[int]] = field(default_factory=dict)
    """The first iterations of the bars of each length."""
    results: dict[int, int] = field(default_factory=dict)
    """How often a bar of each length was drawn right behind a line with a training loss."""
    awaited: bool = False
    first: Reading = field(default_factory=dict)
    """The first line that matched."""

    def count(self, line: LogLine) -> None:
        read = self.pattern.read_line(line.text)
        if read is None:
            return
        reading, stamp = read
        self.lines += 1
        self.found.update(reading)
        self.first = self.first or reading
        if self.lines <= 100 and self.pattern.stamp_ns(line.text, stamp) is not None:
            self.stamps += 1
        iteration, bar = reading.get("iteration"), reading.get("iterations")
        if self.pattern.bar_follows and "loss" in reading and bar is None:
            self.awaited = True
        if iteration is None or (line.nested and self.pattern.one_bar):
            return
        if self.pattern.one_bar and bar is not None:
            iterations = self.bars.setdefault(int(bar), [])
            self.results[int(bar)] = self.results.get(int(bar), 0) + self.awaited
            self.awaited = False
        else:
            iterations = self.iterations
        begun = iteration > 0 or self.pattern.first_iteration != 1
        if begun and len(iterations) < 2 and iteration not in iterations:
            iterations.append(int(iteration))

    @property
    def bar(self) -> int | None:
        """Length of the training's bar: the one drawn behind losses, else the longest."""
        return max(self.bars, key=lambda bar: (self.results[bar], bar), default=None)

    @property
    def printed(self) -> list[int]:
        """The first iterations that are printed."""
        return self.iterations if self.bar is None else self.bars[self.bar]


def choose_pattern(
    lines: Iterable[LogLine], patterns: Sequence[Pattern], *, where: str, forced: str | None = None
) -> Choice:
    """The pattern that fits the most lines (or the forced one); an error where none fits."""
    if forced is not None:
        patterns = [p for p in patterns if p.name == forced]
    tallies = [_Tally(pattern=pattern) for pattern in patterns]
    sampled = 0
    for line in lines:
        sampled += 1
        for tally in tallies:
            tally.count(line)
        if sampled % SAMPLED_LINES == 0 and any(tally.lines for tally in tallies):
            break
    best = max(tallies, key=_weight)
    if not best.lines:
        tried = ", ".join(tally.pattern.name for tally in tallies)
        raise UsageError(
            f"no line of {where} fits a log pattern (tried {tried}); describe its lines "
            "in a JSON file and give it with --pattern-file"
        )
    _refuse_last_state(best, where)
    first, start = _counting(best)
    return Choice(
        pattern=best.pattern,
        matched={tally.pattern.name: tally.lines for tally in tallies},
        sampled=sampled,
        first_iteration=first,
        start=start,
        bar=best.bar,
        found=frozenset(best.found),
        stamped=best.stamps > min(best.lines, 100) // 2,
    )


def _refuse_last_state(tally: _Tally, where: str) -> None:
    """Lightning's Rich bar leaves one state in a file: that of the last epoch."""
    epoch, last = tally.first.get("epoch"), tally.first.get("last_epoch")
    whole = tally.first.get("iteration") == tally.first.get("iterations")
    if epoch and last is not None and whole:
        raise UsageError(
            f"{where} holds only the last state of Lightning's Rich bar, of epoch {epoch} "
            f"(0 to {last}): the time of the epochs before is not in it; train with "
            "callbacks=[TQDMProgressBar()], which writes every state to a file too"
        )


def _weight(tally: _Tally) -> float:
    return tally.lines * (GENERAL_WEIGHT if tally.pattern.general else 1.0)


def _counting(tally: _Tally) -> tuple[int, int]:
    """Number of the first iteration, and how many were done before the log begins."""
    printed = tally.printed
    first = tally.pattern.first_iteration
    if first is None:
        first = 0 if printed and printed[0] == 0 else 1
    if len(printed) < 2 or printed[1] < printed[0]:
        return first, 0
    done, stride = printed[0] + 1 - first, printed[1] - printed[0]
    # The first line stands one stride after the start, or at once: any later, and some are missing.
    return first, done - stride if done > stride + 1 else 0
