"""Calibrated predictions beside measured steps of an H200, each family of models left out in turn.

    python bench/predict_h200.py [--rows h200] [--keep ROW]

The steps are those that step_truth.py measured (bench/step_points.py keeps them). For each family
the points that come from its own steps are left out of the calibration; those of single operations
stay. How a step runs against single operations (`Pace`) is chosen anew for each family, by the mean
error of all others. Beside each step its bare roofline, and its FLOPs at the share of the peak that
the other families' steps reach on the median. Energy is by the board's counter.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from raw import keep, load_figures
from step_points import points_of, works_of_row
from trainload.hardware.calibrations import load_calibrations
from trainload.hardware.catalogue import find_device
from trainload.predict.curves import Curves
from trainload.predict.features import place
from trainload.predict.limits import limits_of, usable_dtype
from trainload.predict.step import Asked, Pace, predict_step
from trainload.predict.transfer import Predictor

PACES = [
    Pace(factor=factor, gap_s=gap_s)
    for factor, gap_s in product((1.0, 1.03, 1.07), (0.0, 2e-6, 4e-6))
]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", default="h200")
    parser.add_argument("--keep", metavar="ROW", help="keep the figures as this row")
    words = parser.parse_args()
    rows = load_figures("step_truth", words.rows)
    device = find_device("h200")
    judged: list[Any] = []
    for family in dict.fromkeys(row["family"] for row in rows):
        inside = [row for row in rows if row["family"] == family]
        outside = [row for row in rows if row["family"] != family]
        judged += judge(device, inside, outside)
    found = [chosen(paces, judged) for paces in judged]
    lines = [describe(row) for row in found] + summary(found)
    print("\n".join(lines))
    if words.keep:
        keep("predict_h200", words.keep, printed="\n".join(lines) + "\n", figures=found)


def judge(device: Any, inside: Sequence[Any], outside: Sequence[Any]) -> list[list[dict[str, Any]]]:
    """The steps of one family at every pace, predicted without anything that was measured of it."""
    limits = limits_of(device)
    calibrations = load_calibrations()
    own = calibrations["h200"]
    single = tuple(point for point in own.points if not point.within_step)
    curves = Curves(replace(own, points=(*single, *points_of(outside))), limits)
    others = [
        Curves(one, limits_of(find_device(name)))
        for name, one in calibrations.items()
        if name != "h200"
    ]
    predictor = Predictor(limits, curves, others)
    shares = [flop_seconds(works_of_row(row), limits) / row["step_s"] for row in outside]
    share = float(np.median(shares))
    found = []
    for row in inside:
        works = works_of_row(row)
        dtypes = [usable_dtype(work.dtype, limits) or "float32" for work in works]
        asked = Asked(
            works=works,
            device=device,
            limits=limits,
            predictor=predictor,
            dispatch_s=own.dispatch_s,
            idle_w=own.idle_w,
        )
        same = {
            "case": row["case"],
            "family": row["family"],
            "true_s": row["step_s"],
            "true_j": row["energy_j"],
            "roofline_s": float(place(works, dtypes, limits).least_s.sum()),
            "flops_s": flop_seconds(works, limits) / share,
        }
        found.append([{**same, **figures(replace(asked, pace=pace))} for pace in PACES])
    return found


def figures(asked: Asked) -> dict[str, Any]:
    """What is said of one step at one pace."""
    said = predict_step(asked)
    return {
        "step_s": said.step_s.value,
        "low": said.step_s.low,
        "high": said.step_s.high,
        "bound": said.bound,
        "tier": said.tier,
        "energy_j": said.energy_j.value,
        "energy_low": said.energy_j.low,
        "energy_high": said.energy_j.high,
    }


def chosen(paces: Sequence[Any], every: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """A step at the pace that suits the steps of all other families best."""
    others = [rows for rows in every if rows[0]["family"] != paces[0]["family"]]
    means = [
        np.mean([abs(error(rows[at], "step_s")) for rows in others]) for at in range(len(PACES))
    ]
    best = int(np.argmin(means))
    pace = PACES[best]
    return {**paces[best], "pace": [pace.factor, pace.gap_s]}


def flop_seconds(works: Sequence[Any], limits: Any) -> float:
    """Seconds of the FLOPs at the peaks of their types."""
    peaks = limits.peaks
    return sum(work.flops / peaks.get(work.dtype, peaks["float32"]) for work in works)


def error(row: dict[str, Any], name: str, true: str = "true_s") -> float:
    """Relative to the truth."""
    return float(row[name] / row[true] - 1)


def describe(row: dict[str, Any]) -> str:
    """One line of the table."""
    inside = "" if row["low"] <= row["true_s"] <= row["high"] else "  outside its range"
    return (
        f"{row['family']:10} {row['case']:42} {1e3 * row['true_s']:8.2f} ms "
        f"{error(row, 'step_s'):+7.1%} {row['bound']:6} energy "
        f"{error(row, 'energy_j', 'true_j'):+7.1%}{inside}"
    )


def summary(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Means over all rows, and by family."""
    lines = []
    for title, name, true in (
        ("step", "step_s", "true_s"),
        ("bare roofline", "roofline_s", "true_s"),
        ("FLOPs at the others' share", "flops_s", "true_s"),
        ("energy", "energy_j", "true_j"),
    ):
        errors = np.abs([error(row, name, true) for row in rows])
        lines.append(
            f"{title:27} mean {errors.mean():.1%}, median {np.median(errors):.1%}, "
            f"worst {errors.max():.1%}, within 25 %: {(errors <= 0.25).mean():.1%}"
        )
    held = np.mean([row["low"] <= row["true_s"] <= row["high"] for row in rows])
    energy = np.mean([row["energy_low"] <= row["true_j"] <= row["energy_high"] for row in rows])
    width = math.exp(np.median([math.log(row["high"] / row["step_s"]) for row in rows]))
    lines.append(f"ranges hold: {held:.1%} of the steps (×/÷ {width:.2f}), energy {energy:.1%}")
    paces = dict.fromkeys(tuple(row["pace"]) for row in rows)
    lines.append("paces chosen without the family (factor, gap s): " + ", ".join(map(str, paces)))
    for bound in ("device", "host"):
        errors = np.abs([error(row, "step_s") for row in rows if row["bound"] == bound])
        lines.append(f"{bound}-bound: {len(errors)} steps, mean {errors.mean():.1%}")
    for family in dict.fromkeys(row["family"] for row in rows):
        errors = np.abs([error(row, "step_s") for row in rows if row["family"] == family])
        lines.append(f"{family:10} {len(errors)} steps, mean {errors.mean():.1%}")
    return lines


if __name__ == "__main__":
    main()
