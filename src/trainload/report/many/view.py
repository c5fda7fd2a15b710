"""What a section of the page of many runs may look at: the runs, their tables, what is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from trainload.analyse.attribution.types import RunLayers
from trainload.analyse.study import StudyOverview, TidyStudy
from trainload.record import Run
from trainload.record.figures import RunFigures


@dataclass(frozen=True, kw_only=True)
class ShownRun:
    """One run of the page; what cannot be read has its place too."""

    key: str
    """Name of its directory."""
    name: str
    """The shortest that tells it from the others."""
    run: Run | None
    """None where its run.json cannot be read."""
    figures: RunFigures | None
    reason: str | None = None
    """Why it does not count; None where it does."""
    layers: RunLayers | None = None


@dataclass(frozen=True, kw_only=True)
class ManyRuns:
    """A study, or some runs beside each other; `runs` stand in the order of the tidy frame."""

    title: str
    is_study: bool
    runs: Sequence[ShownRun]
    tidy: TidyStudy
    overview: StudyOverview
    planned: int = 0
    """Cells that the study plans; 0 where no plan is known."""
    problems: Sequence[tuple[str, str]] = ()
    """What could not be read, by name, and why."""
    notes: Sequence[str] = field(default_factory=tuple)

    @cached_property
    def levels(self) -> Mapping[str, Sequence[str]]:
        """Levels of each factor, numbers in their order, planned ones included."""
        found = {}
        for factor in self.tidy.factors:
            frames = (self.tidy.frame, self.tidy.missing)
            texts = dict.fromkeys(
                text for frame in frames for text in frame[factor].drop_nulls().to_list()
            )
            found[factor] = sorted(texts, key=_level_key)
        return found

    @cached_property
    def run_levels(self) -> Sequence[tuple[int, ...]]:
        """Of each run the position of its level of each factor; -1 where it is not known."""
        rows = self.tidy.frame.select(self.tidy.factors).iter_rows() if self.tidy.factors else ()
        return [self.positions(texts) for texts in rows] or [()] * len(self.runs)

    def positions(self, texts: Sequence[str | None]) -> tuple[int, ...]:
        """The position of each level in `levels`, in the order of the factors."""
        pairs = zip(self.levels.values(), texts, strict=True)
        return tuple(-1 if t is None or t not in known else known.index(t) for known, t in pairs)


def _level_key(text: str) -> tuple[int, float, str]:
    try:
        return (0, float(text), text)
    except ValueError:
        return (1, 0.0, text)
