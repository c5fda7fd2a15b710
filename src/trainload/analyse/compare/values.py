"""What a comparison takes and what it says: plain frozen values; computes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from trainload.record.figures import RunFigures

Verdict = Literal["faster", "slower", "higher", "lower", "same", "inconclusive"]
Standing = Literal["better", "worse", "changed", "unchanged", "undecided", "missing"]
"""What a verdict means: `changed` where neither direction is the better one, `missing` where only
one side tells the metric."""

LEVEL = 0.95
"""Of all verdicts on metrics together: two equal sets differ in none with this probability."""
MARGIN = 0.03
"""Relative difference that does not matter, where the user states none."""


class PartKey(NamedTuple):
    """A part of a step that two runs may share, whatever their framework."""

    path: str
    """A layer's path, `(model)` for the model itself; else what the time was: `input`, `copy`…"""
    phase: str | None
    """forward, backward, update, or idle while the host prepared the layer; None of no layer."""


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """One run as a comparison sees it."""

    name: str
    figures: RunFigures
    surroundings: Mapping[str, Any] = field(default_factory=dict)
    """Versions, machine, and what else went on there, one name a fact."""
    parts: Mapping[PartKey, float] | None = None
    """Seconds of a step by part, summing to `step_s`; None where layers were not traced."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """Some runs that stand for one thing."""

    name: str
    runs: tuple[ComparedRun, ...]
    left_out: tuple[str, ...] = ()
    """Runs that do not count, with the reason."""


@dataclass(frozen=True, kw_only=True)
class MetricDifference:
    """One metric of both sides; every difference is B − A, in the metric's unit."""

    name: str
    unit: str | None
    a: float | None
    b: float | None
    """Geometric means over the runs; arithmetic ones where a value is not positive."""
    difference: float | None
    percent: float | None
    """The same of `a`; None where that is 0."""
    low: float | None
    high: float | None
    """Bounds of the difference at `confidence`; None where no spread is known."""
    confidence: float | None
    """Level of this interval, above LEVEL where many are read together."""
    runs_a: int
    runs_b: int
    verdict: Verdict
    standing: Standing
    note: str | None = None
    """Where the spread comes from, or why there is no verdict."""


@dataclass(frozen=True, kw_only=True)
class FactDifference:
    """A fact in which the sides differ; several values of one side are listed."""

    name: str
    a: str
    b: str


@dataclass(frozen=True, kw_only=True)
class FactDifferences:
    """What differs, loudest first, and how much does not."""

    differing: tuple[FactDifference, ...]
    equal: int


@dataclass(frozen=True, kw_only=True)
class LayerDifference:
    """One part of the step's difference, in seconds of a step."""

    path: str
    phase: str | None
    a_s: float
    b_s: float
    difference_s: float
    low_s: float | None = None
    high_s: float | None = None
    """Bounds of the difference; None with a single run on a side."""
    own_s: float | None = None
    """What is left of it when the change that all parts share is taken away."""
    own_low_s: float | None = None
    own_high_s: float | None = None
    verdict: Verdict = "inconclusive"
    """Decided where the difference or the part's own change is; all parts together at LEVEL."""
    change: Literal["new", "vanished"] | None = None
    """`new` exists in B alone, `vanished` in A alone."""
    operation: str | None = None
    """The operation or kernel in it that changed most; None where no trace tells."""
    operation_s: float | None = None
    """By how much that changed."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One side against the reference."""

    a: str
    b: str
    runs_a: int
    runs_b: int
    cells: int
    """Pairs of cells that were compared; above 1 where sides hold several workloads."""
    margin: float
    metrics: tuple[MetricDifference, ...]
    """The step time first."""
    configuration: FactDifferences
    environment: FactDifferences
    layers: tuple[LayerDifference, ...]
    """Decided ones first, then by own change; they sum to the difference of the step time."""
    shared_fraction: float | None = None
    """By how much all parts changed alike, as a slower clock or other load does; None of no layers.
    """
    notes: tuple[str, ...] = ()
    level: float = LEVEL

    def metric(self, name: str) -> MetricDifference | None:
        """A metric by its name; None where neither side tells it."""
        return next((one for one in self.metrics if one.name == name), None)

    def counts(self) -> dict[Standing, int]:
        """How many metrics are better, worse, changed, unchanged, undecided, missing."""
        names: tuple[Standing, ...] = (
            "better", "worse", "changed", "unchanged", "undecided", "missing",
        )  # fmt: skip
        return {name: sum(m.standing == name for m in self.metrics) for name in names}
