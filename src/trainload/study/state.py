"""Where each cell stands: from its runs to settled repetitions, results and failures; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from trainload.study.file import StudyKeys
from trainload.study.ledger import Entry

Ending = Literal["out_of_memory", "timed_out", "failed", "untrusted"]


@dataclass(slots=True)
class Repetition:
    """The runs of one repetition of a cell, as far as they decide about it."""

    accepted: str | None = None
    value: float | None = None
    other_load: float | None = None
    disturbed: int = 0
    failed: int = 0
    untrusted: int = 0


@dataclass(slots=True)
class CellState:
    """One cell: its repetitions, and how it ended where it ended early."""

    repetitions: dict[int, Repetition] = field(default_factory=dict)
    ending: Ending | None = None
    reason: str | None = None
    run_s: float = 0.0
    timed_runs: int = 0

    @property
    def mean_run_s(self) -> float | None:
        """Mean length of its runs, those that do not count included; None before the first."""
        return self.run_s / self.timed_runs if self.timed_runs else None

    @property
    def settled(self) -> int:
        """How many repetitions are accepted, counted from the first on without a hole."""
        number = 0
        while number in self.repetitions and self.repetitions[number].accepted is not None:
            number += 1
        return number

    @property
    def values(self) -> list[float]:
        """The chosen figure of each accepted repetition that has it."""
        found = [self.repetitions[number] for number in sorted(self.repetitions)]
        return [one.value for one in found if one.accepted is not None and one.value is not None]


class StudyState:
    """All cells of a study; takes one run after the other."""

    def __init__(self, keys: StudyKeys, metric: str | None) -> None:
        self.keys = keys
        self.metric = metric
        self.cells: dict[str, CellState] = {}
        self.runs = 0
        self.run_s = 0.0
        self.timed_runs = 0
        self.run_bytes = 0
        self.energy_j: float | None = None
        self.lacking: str | None = None
        """A counted run without the figure that stopping asks for."""

    @property
    def figures(self) -> tuple[str, ...]:
        """The figures of a run that it looks at."""
        return ("energy_j",) if self.metric is None else ("energy_j", self.metric)

    def take(self, entries: Iterable[Entry]) -> None:
        """Take runs in the order they ended."""
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Take one run that has ended."""
        cell = self.cells.setdefault(entry.cell, CellState())
        self._sum(entry, cell)
        if entry.verdict == "lost" or cell.ending is not None:
            return
        repetition = cell.repetitions.setdefault(entry.repetition, Repetition())
        if entry.verdict == "result":
            cell.ending = "out_of_memory" if entry.outcome == "out_of_memory" else "timed_out"
            cell.reason = entry.reason
        elif entry.verdict == "failed":
            repetition.failed += 1
            if repetition.failed > self.keys.retries and repetition.accepted is None:
                cell.ending, cell.reason = "failed", entry.reason
        elif entry.verdict == "untrusted":
            repetition.untrusted += 1
            if repetition.untrusted > self.keys.untrusted_repeats and repetition.accepted is None:
                cell.ending, cell.reason = "untrusted", "; ".join(entry.doubts)
        else:
            self._accept(repetition, entry)

    def _accept(self, repetition: Repetition, entry: Entry) -> None:
        """Take a sound run; one beside other load only where it was repeated often enough.

        Of several disturbed ones the least disturbed counts.
        """
        if repetition.accepted is not None:
            return
        limit, load = self.keys.other_load, entry.other_load_fraction
        value = entry.duration_s if self.metric is None else entry.figures.get(self.metric)
        if value is None and self.metric is not None:
            self.lacking = entry.run
        if limit.repeats and load is not None and load > limit.limit_fraction:
            repetition.disturbed += 1
            if repetition.other_load is None or load < repetition.other_load:
                repetition.other_load, repetition.value = load, value
            if repetition.disturbed > limit.repeats:
                repetition.accepted = entry.run
            return
        repetition.accepted, repetition.value, repetition.other_load = entry.run, value, load

    def _sum(self, entry: Entry, cell: CellState) -> None:
        self.runs += 1
        self.run_bytes += entry.bytes or 0
        if entry.duration_s is not None and entry.verdict != "lost":
            self.run_s += entry.duration_s
            self.timed_runs += 1
            cell.run_s += entry.duration_s
            cell.timed_runs += 1
        energy_j = entry.figures.get("energy_j")
        if energy_j is not None:
            self.energy_j = (self.energy_j or 0.0) + energy_j

    @property
    def mean_run_s(self) -> float | None:
        """Mean length of a run so far; None before the first."""
        return self.run_s / self.timed_runs if self.timed_runs else None

    @property
    def disturbed(self) -> int:
        """Accepted repetitions that were measured beside more other load than the file admits."""
        limit = self.keys.other_load.limit_fraction
        return sum(
            one.accepted is not None and one.other_load is not None and one.other_load > limit
            for cell in self.cells.values()
            for one in cell.repetitions.values()
        )

    def counts(self) -> Mapping[str, int]:
        """Settled repetitions of each cell that has any."""
        return {identity: cell.settled for identity, cell in self.cells.items()}
