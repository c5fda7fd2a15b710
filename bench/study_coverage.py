"""Whether a study's intervals and early-stopped rankings hold, by simulation with its own rules.

    python bench/study_coverage.py [--studies 1000] [--seed 13] [--left-out] [--json FILE]

Each simulated study draws its repetitions from noise of a known median and is stopped by
`trainload.study.enough` as a real one is. Coverage: how often the interval it ends with contains
the true median, for every noise and asked width (at least 93 % wanted everywhere), beside the same
without paying for the looks. Rankings: how often those that were decided name the true best, where
it is ahead by more than the asked width (at least 95 % wanted). Exits 1 where one fails.

The rules were set while looking at NOISES; --left-out takes noises that they were not set by.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trainload.intervals import median_interval
from trainload.study.enough import RankRule, WidthRule, next_repetitions

LEAST_COVERAGE = 0.93
LEAST_RIGHT = 0.95
FEWEST_DECIDED = 20
"""Decided rankings below which a share of them says nothing."""
REPETITIONS = (3, 4, 5, 6, 8, 10, 15, 20, 30)
LIMITS = ((3, 30), (3, 10), (5, 30))
WIDTHS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def _lognormal(sigma: float) -> Draw:
    return lambda rng, shape: np.exp(sigma * rng.standard_normal(shape))


def _gamma(shape_parameter: float) -> Draw:
    return lambda rng, shape: rng.gamma(shape_parameter, size=shape)


def _outliers(share: float, times: float, sigma: float) -> Draw:
    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        hit = rng.random(shape) < share
        return np.exp(sigma * rng.standard_normal(shape)) * np.where(hit, times, 1.0)

    return draw


NOISES: Mapping[str, Draw] = {
    "lognormal 0.02": _lognormal(0.02),
    "lognormal 0.1": _lognormal(0.1),
    "lognormal 0.3": _lognormal(0.3),
    "lognormal 1": _lognormal(1.0),
    "gamma 2": _gamma(2),
    "gamma 4": _gamma(4),
    "gamma 16": _gamma(16),
    "5% outliers x3": _outliers(0.05, 3, 0.03),
    "10% outliers x1.5": _outliers(0.1, 1.5, 0.03),
    "20% outliers x2": _outliers(0.2, 2, 0.05),
}


def _student(degrees: float, scale: float) -> Draw:
    return lambda rng, shape: np.exp(scale * rng.standard_t(degrees, shape))


def _bimodal(share: float, times: float, sigma: float) -> Draw:
    """As outliers are drawn, but so many that they are a second mode: a clock with two states."""
    return _outliers(share, times, sigma)


def _weibull(shape_parameter: float) -> Draw:
    return lambda rng, shape: rng.weibull(shape_parameter, size=shape)


def _floor(scale: float) -> Draw:
    """A least time, and an exponential delay on top of it: what a queue adds to a fixed work."""
    return lambda rng, shape: 1 + scale * rng.exponential(size=shape)


LEFT_OUT: Mapping[str, Draw] = {
    "bimodal 30% x1.25": _bimodal(0.3, 1.25, 0.02),
    "bimodal 15% x2": _bimodal(0.15, 2, 0.05),
    "t, 3 df, 0.03": _student(3, 0.03),
    "t, 3 df, 0.2": _student(3, 0.2),
    "weibull 1.5": _weibull(1.5),
    "floor + exp 0.1": _floor(0.1),
    "floor + exp 1": _floor(1.0),
}
RANKED = ("lognormal 0.02", "lognormal 0.1", "lognormal 0.3", "gamma 16", "10% outliers x1.5")
RANKED_LEFT_OUT = ("bimodal 30% x1.25", "t, 3 df, 0.03", "t, 3 df, 0.2", "floor + exp 0.1")


def true_median(draw: Draw) -> float:
    """By two million draws: within 0.1 % for the widest of the noises."""
    return float(np.median(draw(np.random.default_rng(0), (1, 2_000_000))))


def coverage_of_fixed(values: np.ndarray, median: float) -> Iterable[dict[str, Any]]:
    """Coverage and mean width where the number of repetitions was given beforehand."""
    for n in REPETITIONS:
        found = [median_interval(row[:n], confidence=0.95) for row in values.tolist()]
        inside = [i is not None and i.contains(median) for i in found]
        widths = [(i.high - i.low) / i.value for i in found if i is not None]
        yield {"repetitions": n, "coverage": np.mean(inside), "width": float(np.median(widths))}


def stop_studies(values: np.ndarray, rule: WidthRule) -> tuple[np.ndarray, np.ndarray]:
    """Low and high bounds, and repetitions, of each row as the rule ends it."""
    rows = values.tolist()
    have = dict.fromkeys(map(str, range(len(rows))), rule.minimum)
    ended, counts = np.empty((len(rows), 3)), np.empty(len(rows))
    while have:
        decision = next_repetitions({c: rows[int(c)][:n] for c, n in have.items()}, rule)
        for cell in [c for c in have if c not in decision.wanted]:
            verdict = decision.verdicts[cell]
            ended[int(cell)] = verdict.low, verdict.high, verdict.value
            counts[int(cell)] = have.pop(cell)
        for cell in have:
            have[cell] += 1
    return ended, counts


def coverage_of_stopped(values: np.ndarray, median: float, rule: WidthRule) -> dict[str, Any]:
    """Coverage, width and repetitions of studies that the rule ended, and without paying."""
    ended, counts = stop_studies(values, rule)
    inside = (ended[:, 0] <= median) & (median <= ended[:, 1])
    return {
        "minimum": rule.minimum,
        "maximum": rule.maximum,
        "asked": rule.width_fraction,
        "coverage": float(inside.mean()),
        "width": float(np.median((ended[:, 1] - ended[:, 0]) / ended[:, 2])),
        "repetitions": float(counts.mean()),
    }


class _Unpaid(WidthRule):
    """The same rule with the asked confidence at every look."""

    @property
    def confidence_each(self) -> float:
        return self.confidence


def rank_studies(
    draw: Draw, cells: int, gap: float, rule: RankRule, studies: int, rng: np.random.Generator
) -> dict[str, Any]:
    """How races end in which cell 0 is ahead of each other one by `gap`."""
    true = np.array([1.0] + [1 + gap] * (cells - 1))[:, None]
    put_out = decided = right = right_of_all = runs = 0
    for _ in range(studies):
        rows = (draw(rng, (cells, rule.maximum)) * true).tolist()
        have = dict.fromkeys(map(str, range(cells)), rule.minimum)
        while True:
            decision = next_repetitions({c: rows[int(c)][:n] for c, n in have.items()}, rule)
            if not decision.wanted:
                break
            for cell in decision.wanted:
                have[cell] += 1
        first = decision.leaders[0] == "0"
        put_out += decision.verdicts["0"].state == "out of the race"
        decided += decision.decided
        right += decision.decided and first
        right_of_all += first
        runs += sum(have.values())
    return {
        "cells": cells,
        "gap": gap,
        "asked": rule.width_fraction,
        "decided": decided / studies,
        "right_of_decided": right / decided if decided else None,
        "best_put_out": put_out / studies,
        "right_of_all": right_of_all / studies,
        "repetitions": runs / studies / cells,
        "enough_decided": decided >= FEWEST_DECIDED,
    }


def simulate(
    studies: int, seed: int, noises: Mapping[str, Draw], raced: Iterable[str]
) -> dict[str, list[dict[str, Any]]]:
    """Every condition, as rows."""
    rng = np.random.default_rng(seed)
    fixed, stopped, ranked = [], [], []
    for name, draw in noises.items():
        median = true_median(draw)
        values = draw(rng, (studies, max(REPETITIONS)))
        fixed += [{"noise": name, **row} for row in coverage_of_fixed(values, median)]
        for minimum, maximum in LIMITS:
            for asked in WIDTHS:
                rule = WidthRule(width_fraction=asked, minimum=minimum, maximum=maximum)
                row = coverage_of_stopped(values, median, rule)
                if (minimum, maximum) == LIMITS[0]:
                    plain = _Unpaid(width_fraction=asked, minimum=minimum, maximum=maximum)
                    row["unpaid"] = coverage_of_stopped(values, median, plain)["coverage"]
                stopped.append({"noise": name, **row})
    for name in raced:
        for cells, count in ((2, studies), (6, max(studies // 4, 20))):
            for gap in (0.06, 0.2):
                rule = RankRule(width_fraction=0.05)
                row = rank_studies(noises[name], cells, gap, rule, count, rng)
                ranked.append({"noise": name, "studies": count, **row})
    return {"fixed": fixed, "stopped": stopped, "ranked": ranked}


def print_rows(found: dict[str, list[dict[str, Any]]]) -> None:
    """The tables; a coverage or share that fails is marked."""
    print("coverage of the true median, repetitions given beforehand (median width)")
    print(f"{'noise':20}" + "".join(f"{n:>14}" for n in REPETITIONS))
    names = dict.fromkeys(row["noise"] for row in found["fixed"])
    for name in names:
        rows = [row for row in found["fixed"] if row["noise"] == name]
        cells = (f"{r['coverage']:.3f} ({r['width']:.3f})" for r in rows)
        print(f"{name:20}" + "".join(f"{cell:>14}" for cell in cells))
    for limits in LIMITS:
        print(f"\nstopped at the asked width, {limits[0]} to {limits[1]} repetitions: coverage")
        print(
            "(width reached, repetitions used"
            + (", unpaid coverage)" if limits == LIMITS[0] else ")")
        )
        print(f"{'noise':20}" + "".join(f"{w:>27}" for w in WIDTHS))
        for name in names:
            rows = [
                row
                for row in found["stopped"]
                if row["noise"] == name and (row["minimum"], row["maximum"]) == limits
            ]
            cells = (
                f"{r['coverage']:.3f} ({r['width']:.3f}, {r['repetitions']:4.1f}"
                + (f", {r['unpaid']:.3f})" if "unpaid" in r else ")")
                for r in rows
            )
            print(f"{name:20}" + "".join(f"{cell:>27}" for cell in cells))
    print("\nrankings: the best ahead by gap, asked width 0.05")
    for r in found["ranked"]:
        share = "-" if r["right_of_decided"] is None else f"{r['right_of_decided']:.3f}"
        print(
            f"{r['noise']:20} {r['cells']} cells, gap {r['gap']:.2f}: decided {r['decided']:.3f}, "
            f"right of those {share}, best put out {r['best_put_out']:.3f}, "
            f"right of all {r['right_of_all']:.3f}, {r['repetitions']:.1f} repetitions a cell"
        )


def failures(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Conditions that do not hold, in words."""
    said = [
        f"{row['noise']}: coverage {row['coverage']:.3f} {row}"
        for row in (*found["fixed"], *found["stopped"])
        if row["coverage"] < LEAST_COVERAGE
    ]
    for row in found["ranked"]:
        wrong = row["enough_decided"] and row["right_of_decided"] < LEAST_RIGHT
        if wrong or row["best_put_out"] > 1 - LEAST_RIGHT:
            said.append(f"{row['noise']}: ranking {row}")
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--left-out", action="store_true", help="noises not looked at before")
    parser.add_argument("--json", type=Path, metavar="FILE")
    words = parser.parse_args()
    began_s = time.monotonic()
    noises, raced = (LEFT_OUT, RANKED_LEFT_OUT) if words.left_out else (NOISES, RANKED)
    found = simulate(words.studies, words.seed, noises, raced)
    print_rows(found)
    rows = [*found["fixed"], *found["stopped"]]
    least, most = min(r["coverage"] for r in rows), max(r["coverage"] for r in rows)
    unpaid = min(r["unpaid"] for r in rows if "unpaid" in r)
    print(
        f"\n{len(rows)} conditions of {words.studies} studies, seed {words.seed}: coverage from "
        f"{least:.3f} to {most:.3f}; unpaid looks would go down to {unpaid:.3f}"
    )
    said = failures(found)
    print("\n".join(said) or "all hold")
    if words.json is not None:
        words.json.write_text(json.dumps(found))
    print(f"{time.monotonic() - began_s:.0f} s", file=sys.stderr)
    sys.exit(1 if said else 0)


if __name__ == "__main__":
    main()
