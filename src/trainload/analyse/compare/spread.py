"""The spread between processes behind a difference: of the runs themselves, else of others.

Takes plain numbers, gives contrasts; docs/compare.md says the rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from trainload.analyse.compare.cells import CellPair, identity_of
from trainload.analyse.compare.values import ComparedRun
from trainload.analyse.study.contrasts import Contrast, mean_difference
from trainload.intervals import FEWEST
from trainload.record.figures import RunFigures

FEWEST_DEGREES = 2
"""Below, a spread says nothing: two values are near each other too often by chance."""
_ROUNDING = 1e-9
"""Of logarithms: a spread below comes from adding floats."""

Values = Callable[[RunFigures], float | None]
"""A run's value on the scale that is compared; None where it has none."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """Runs beside the compared ones that tell how much processes differ."""

    workloads: Mapping[str, Sequence[Sequence[RunFigures]]] = field(default_factory=dict)
    """By identity: other runs of the workloads that are compared, equal code and versions together.
    """
    studies: Mapping[str, Sequence[Sequence[RunFigures]]] = field(default_factory=dict)
    """By study: runs of those that the compared ones belong to, cell by cell."""
    where: str = "the store"


@dataclass(frozen=True, kw_only=True)
class _Spread:
    """A variance on the compared scale; `source` is equal where the same values gave it."""

    variance: float
    degrees: float
    source: str
    note: str | None = None


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A difference with where its error comes from; no contrast where none is known."""

    value: float
    contrast: Contrast | None
    note: str | None
    tied_chance: float = 0.0
    """Where all values of each side are equal: how often so by chance, if these were drawn from
    both alike."""


def estimate_difference(
    pairs: Sequence[CellPair], value: Values, known: Known, *, floor: float = 0.0
) -> Estimate | None:
    """Mean over the pairs of (mean of B − mean of A); None where no pair has values on both sides.

    Errors after Welch and Satterthwaite. A side of one or two runs takes the spread of other runs
    of its workload, of its study, or of the other side, in this order. Values that are all equal
    are given the deviation `floor`.
    """
    told = [(told_values(pair.a, value), told_values(pair.b, value)) for pair in pairs]
    used = [(p, a, b) for p, (a, b) in zip(pairs, told, strict=True) if a and b]
    if not used:
        return None
    center = math.fsum(_mean(b) - _mean(a) for _, a, b in used) / len(used)
    parts: list[tuple[_Spread, float]] = []
    for pair, a, b in used:
        spreads = _spreads(pair, a, b, value, known, alone=len(used) == 1)
        if spreads is None:
            return _over_pairs(used, center, known)
        share = 1 / len(used) ** 2
        parts += [(spreads[0], share / len(a)), (spreads[1], share / len(b))]
    notes = dict.fromkeys(spread.note for spread, _ in parts if spread.note)
    tied = not any(spread.variance for spread, _ in parts)
    orders = math.prod(math.comb(len(a) + len(b), len(a)) for _, a, b in used)
    return Estimate(
        value=center,
        contrast=_contrast(center, parts, floor),
        note="; ".join(notes) or None,
        tied_chance=min(1.0, 2 / orders) if tied else 0.0,
    )


def _over_pairs(
    used: Sequence[tuple[CellPair, list[float], list[float]]], center: float, known: Known
) -> Estimate:
    """From the differences of three cells or more; else nothing is known of the spread."""
    if len(used) >= FEWEST:
        found = mean_difference([([_mean(b)], [_mean(a)]) for _, a, b in used])
        if found is not None and found.error > _ROUNDING:
            return Estimate(value=center, contrast=found, note="spread between the cells")
    return Estimate(
        value=center,
        contrast=None,
        note=f"too few runs, and no others of this workload in {known.where}: no spread between "
        "processes is known",
    )


def _contrast(center: float, parts: Sequence[tuple[_Spread, float]], floor: float) -> Contrast:
    """Variances of one source are one estimate, so that its degrees are counted once."""
    weights: dict[str, float] = {}
    spreads: dict[str, _Spread] = {}
    for spread, weight in parts:
        weights[spread.source] = weights.get(spread.source, 0.0) + weight
        before = spreads.get(spread.source, spread)
        spreads[spread.source] = max(before, spread, key=lambda one: one.variance)
    terms = [
        (weights[source] * (spread.variance or floor**2), spread.degrees)
        for source, spread in spreads.items()
    ]
    squared = math.fsum(term for term, _ in terms)
    if squared <= 0:
        return Contrast(value=center, error=0.0, degrees=1.0)
    degrees = squared**2 / math.fsum(term**2 / free for term, free in terms)
    return Contrast(value=center, error=math.sqrt(squared), degrees=degrees)


def _spreads(
    pair: CellPair, a: list[float], b: list[float], value: Values, known: Known, *, alone: bool
) -> tuple[_Spread, _Spread] | None:
    """Of both sides; two runs of one cell `alone` tell none."""
    found = [_spread_of(runs, own, value, known) for runs, own in ((pair.a, a), (pair.b, b))]
    one, other = (
        None if spread is not None and alone and spread.degrees < FEWEST_DEGREES else spread
        for spread in found
    )
    if one is None and other is None:
        return None
    if one is None or other is None:
        short, told = (pair.a, a) if one is None else (pair.b, b)
        if len(short) >= FEWEST > len(told):
            return None  # what most runs of a side do not tell is no matter of few runs
        lender = one or other
        assert lender is not None, "one of them is known"
        name = "B" if one is None else "A"
        note = "; ".join(filter(None, (lender.note, f"spread of {name} taken for both")))
        borrowed = _Spread(
            variance=lender.variance, degrees=lender.degrees, source=lender.source, note=note
        )
        return borrowed, borrowed
    return one, other


def _spread_of(
    runs: Sequence[ComparedRun], own: list[float], value: Values, known: Known
) -> _Spread | None:
    """Of three runs or more their own; else with others of the workload, or of the study."""
    names = f"own {id(runs)}"  # runs may be copies of each other, so that their names are equal
    if len(own) >= FEWEST:
        return _pooled([own], source=names)
    identity, study = identity_of(runs[0].figures), runs[0].figures.study
    for groups, what, key in (
        (known.workloads.get(identity, ()), "other runs of this workload in", identity),
        (known.studies.get(study or "", ()), "other runs of the study, in", study),
    ):
        beside = [_told_of(group, value) for group in groups]
        degrees = sum(max(len(one) - 1, 0) for one in beside)
        if degrees >= FEWEST_DEGREES:
            count = sum(map(len, beside))
            return _pooled(
                [own, *beside],
                source=f"{what} {key}",
                note=f"spread of {count} {what} {known.where}",
            )
    return _pooled([own], source=names) if len(own) > 1 else None


def _pooled(groups: Sequence[list[float]], *, source: str, note: str | None = None) -> _Spread:
    """Variance within the groups; 0 where nothing varies."""
    squares = math.fsum((v - _mean(one)) ** 2 for one in groups if one for v in one)
    degrees = sum(max(len(one) - 1, 0) for one in groups)
    return _Spread(variance=squares / degrees, degrees=degrees, source=source, note=note)


def told_values(runs: Sequence[ComparedRun], value: Values) -> list[float]:
    """The values of those runs that have one."""
    return _told_of([run.figures for run in runs], value)


def _told_of(figures: Sequence[RunFigures], value: Values) -> list[float]:
    found = (value(one) for one in figures)
    return [one for one in found if one is not None]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
