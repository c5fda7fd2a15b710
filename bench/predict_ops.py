"""Single operations on a device left out: predicted from the calibrations of the others.

    python bench/predict_ops.py TABLES [--rows 4000] [--keep ROW]

TABLES is the folder of the public per-operation tables (see predict_tables.py). For each device its
own calibration is set aside, and the energy of a FLOP is fitted again without it; rows of its
table, drawn with a seed, are predicted from what is shipped of the others. Beside it a bare
roofline, and the nearest device's measured time of the same row times the ratio of float32 peaks.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any

import numpy as np

from predict_tables import table_points
from raw import keep
from trainload.hardware.calibrations import Calibration, Point, load_calibrations
from trainload.hardware.catalogue import find_device
from trainload.predict.curves import Curves
from trainload.predict.limits import board_joules, limits_of
from trainload.predict.transfer import WITHIN, Predictor
from trainload.predict.work import work_of

CLASSES = ("linear", "bmm", "conv", "elementwise", "softmax", "norm")
SEED = 7
LASTING_S = 1e-3
"""From which on a board cannot draw more than its limit."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tables", type=Path)
    parser.add_argument("--rows", type=int, default=4000, help="of each device")
    parser.add_argument("--keep", metavar="ROW", help="keep the figures as this row")
    words = parser.parse_args()
    tables = table_points(words.tables)
    # Shipped ones alone: what a user calibrated himself is not what these figures are of.
    shipped = {name: one for name, one in load_calibrations().items() if name in tables}
    print(
        _line(
            "device left out", "class", "rows", "error", "median", "in range", "roofline", "ratio"
        )
    )
    kept: list[dict[str, Any]] = []
    for name, points in tables.items():
        draw = random.Random(SEED).sample(points, min(words.rows, len(points)))
        kept += _device(name, draw, shipped, tables)
    if words.keep:
        keep("predict_ops", words.keep, figures=kept)


def _device(
    name: str,
    draw: list[Point],
    shipped: dict[str, Calibration],
    tables: dict[str, list[Point]],
) -> list[dict[str, Any]]:
    joules = fit_joules([one for other, one in shipped.items() if other != name])
    limits = limits_of(find_device(name), joules)
    others = [
        Curves(one, limits_of(find_device(other), joules))
        for other, one in shipped.items()
        if other != name
    ]
    predictor = Predictor(limits, None, others)
    works = [work_of(point) for point in draw]
    times = predictor.times(works, with_host=True)
    truth = np.array([point.seconds for point in draw])
    spread = np.sqrt(times.spread**2 + times.shared_spread**2)
    inside = np.abs(np.log(times.seconds / truth)) <= WITHIN * spread
    bare = np.array(
        [max(w.flops / limits.peaks["float32"], w.bytes / limits.bandwidth) for w in works]
    )
    near = predictor.nearest[0]
    known = {_key(point): point.seconds for point in tables[near]}
    ratio = find_device(near).value("float32_flop_per_s") / limits.peaks["float32"]
    by_ratio = np.array([known.get(_key(point), np.nan) * ratio for point in draw])
    rows = []
    for one in (*CLASSES, "all"):
        at = np.array([one in (work.operation, "all") for work in works])
        if not at.any():
            continue
        row = {
            "device": name,
            "class": one,
            "rows": int(at.sum()),
            "error": _error(times.seconds[at], truth[at]),
            "median": float(np.median(np.abs(times.seconds[at] / truth[at] - 1))),
            "in_range": float(inside[at].mean()),
            "roofline": _error(bare[at], truth[at]),
            "ratio": _error(by_ratio[at], truth[at]),
            "ratio_from": near,
            "float32_j": joules,
        }
        rows.append(row)
        print(
            _line(
                name,
                one,
                row["rows"],
                *(
                    f"{row[key]:.1%}"
                    for key in ("error", "median", "in_range", "roofline", "ratio")
                ),
            )
        )
    return rows


def fit_joules(calibrations: list[Calibration]) -> float:
    """Energy of a float32 FLOP: the median of the three boards that reach the most for a joule."""
    found = []
    for one in calibrations:
        rates = [
            point.flops / point.seconds
            for point in one.points
            if point.operation in ("linear", "bmm") and point.seconds > LASTING_S
        ]
        joules = board_joules(find_device(one.device), float(np.quantile(rates, 0.99)))
        if joules is not None:
            found.append(joules)
    return float(np.median(sorted(found)[:3]))


def _error(predicted: Any, truth: Any) -> float:
    return float(np.nanmean(np.abs(predicted / truth - 1)))


def _key(point: Point) -> tuple[Any, ...]:
    return point.operation, *point.sizes.values()


def _line(*words: Any) -> str:
    first, second, *rest = map(str, words)
    return f"{first:18}{second:14}" + "".join(f"{word:>10}" for word in rest)


if __name__ == "__main__":
    main()
