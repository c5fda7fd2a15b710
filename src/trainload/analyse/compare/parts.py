"""Verdicts on the parts of a step: by their seconds, and beyond what all parts share.

Other load or a slower clock stretches all parts of a run alike. That stretch is taken out of each
run before its parts are compared, so that what one layer does on its own can be seen beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from trainload.analyse.compare.values import LEVEL, LayerDifference, PartKey, Verdict
from trainload.analyse.study.contrasts import Contrast, holm_levels, mean_difference

NOT_EXPLAINED = "not explained"
"""Path of what no part of either side explains; its row makes the sum exact."""
Parts = Mapping[PartKey, float]
Cell = Sequence[Sequence[Parts]]
"""The runs of A and of B, each as parts of its step."""
Speeds = tuple[list[float], list[float]]
Bounds = tuple[float | None, float | None]


def run_speeds(a: Sequence[Parts], b: Sequence[Parts], keys: Sequence[PartKey]) -> Speeds:
    """By how much each run of a cell is stretched against the middle of all.

    The median over the parts of (time in this run / geometric mean over the runs), weighted by the
    square root of that mean: neither one large layer nor many small ones decide. (The median of
    ratios by which Anders and Huber 2010 scale counts.)
    """
    runs = [*a, *b]
    common = [key for key in keys if all(run.get(key, 0.0) > 0 for run in runs)]
    if not common:
        return [1.0] * len(a), [1.0] * len(b)
    middle = {key: math.exp(_mean([math.log(run[key]) for run in runs])) for key in common}
    found = [
        _weighted_median([(run[key] / middle[key], math.sqrt(middle[key])) for key in common])
        for run in runs
    ]
    return found[: len(a)], found[len(a) :]


def judge_parts(
    means: Mapping[PartKey, tuple[float, float]],
    cells: Sequence[Cell],
    speeds: Sequence[Speeds],
    shared: float,
    margin: float,
) -> list[LayerDifference]:
    """A row for each part, with its `means` of A and B in seconds.

    Half of the allowed error is for the seconds, half for the own change; each half is shared by
    Holm's procedure.
    """
    plain = {key: _plain_contrast(key, cells) for key in means}
    own = {key: _own_contrast(key, cells, speeds) for key in means}
    plain_levels = _levels(plain)
    own_levels = _levels({key: contrast for key, (contrast, _) in own.items()})
    return [
        _row(
            key,
            times,
            _bounds(plain[key], plain_levels.get(key)),
            _own(times, *own[key], own_levels.get(key), shared),
            margin,
        )
        for key, times in means.items()
    ]


def _levels(contrasts: Mapping[PartKey, Contrast | None]) -> dict[PartKey, float]:
    known = {key: one.p_value for key, one in contrasts.items() if one is not None}
    return dict(zip(known, holm_levels(list(known.values()), (1 - LEVEL) / 2), strict=True))


def _plain_contrast(key: PartKey, cells: Sequence[Cell]) -> Contrast | None:
    return mean_difference(
        [([run.get(key, 0.0) for run in b], [run.get(key, 0.0) for run in a]) for a, b in cells]
    )


def _own_contrast(
    key: PartKey, cells: Sequence[Cell], speeds: Sequence[Speeds]
) -> tuple[Contrast | None, bool]:
    """The difference of unstretched times, and whether it is one of logarithms."""
    values = [
        tuple(
            [run.get(key, 0.0) / speed for run, speed in zip(runs, side, strict=True)]
            for runs, side in zip(cell, pace, strict=True)
        )
        for cell, pace in zip(cells, speeds, strict=True)
    ]
    logs = all(value > 0 for pair in values for side in pair for value in side)
    if logs:
        values = [tuple(list(map(math.log, side)) for side in pair) for pair in values]
    return mean_difference([(b, a) for a, b in values]), logs


def _row(
    key: PartKey,
    times: tuple[float, float],
    plain: Bounds,
    own: tuple[float, Bounds],
    margin: float,
) -> LayerDifference:
    a_s, b_s = times
    return LayerDifference(
        path=key.path,
        phase=key.phase,
        a_s=a_s,
        b_s=b_s,
        difference_s=b_s - a_s,
        low_s=plain[0],
        high_s=plain[1],
        own_s=own[0],
        own_low_s=own[1][0],
        own_high_s=own[1][1],
        verdict=_verdict(b_s - a_s, plain, own[1], margin * max(a_s, b_s)),
        change="new" if a_s == 0 < b_s else "vanished" if b_s == 0 < a_s else None,
    )


def _own(
    times: tuple[float, float],
    contrast: Contrast | None,
    logs: bool,
    level: float | None,
    shared: float,
) -> tuple[float, Bounds]:
    """A part's own change in seconds at B's pace, and its bounds."""
    a_s, b_s = times
    if contrast is None or level is None:
        return b_s - shared * a_s, (None, None)
    low, high = contrast.bounds(level)
    if logs:
        value, low, high = (math.expm1(min(x, 700.0)) for x in (contrast.value, low, high))
        return shared * a_s * value, (shared * a_s * low, shared * a_s * high)
    # Unstretched times are those of a run in the middle; B's pace is the square root away.
    pace = math.sqrt(shared)
    return pace * contrast.value, (pace * low, pace * high)


def _bounds(contrast: Contrast | None, level: float | None) -> Bounds:
    return (None, None) if contrast is None or level is None else contrast.bounds(level)


def _verdict(difference_s: float, plain: Bounds, own: Bounds, near_s: float) -> Verdict:
    """By the seconds; where these do not tell, by the own change if it goes the same way."""
    low, high = plain
    if low is None or high is None:
        return "inconclusive"
    if -near_s <= low and high <= near_s:
        return "same"
    if low > 0 or high < 0:
        return "slower" if low > 0 else "faster"
    own_low, own_high = own
    if own_low is not None and own_low > 0 and difference_s > 0:
        return "slower"
    if own_high is not None and own_high < 0 and difference_s < 0:
        return "faster"
    return "inconclusive"


def _weighted_median(pairs: Sequence[tuple[float, float]]) -> float:
    ordered = sorted(pairs)
    half, passed = math.fsum(weight for _, weight in ordered) / 2, 0.0
    for value, weight in ordered:
        passed += weight
        if passed >= half:
            return value
    return ordered[-1][0]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
