"""Published throughputs of nine models on six kinds of GPU: ratios, ranking, several devices.

    python bench/predict_devices.py TABLES [--keep ROW]

TABLES is the folder with throughput_lambda.csv (github lambdal/deeplearning-benchmark). For every
model, precision and pair of devices the one's published figure is given and the other's predicted;
the other's own calibration is left out. Nothing is fitted to the table. Beside it the ratio of
peaks in the type asked for, and that of rooflines.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from predict_tables import shipped_host
from predict_vendor_models import PARAMETERS, vendor_works
from raw import keep
from trainload.hardware.calibrations import load_calibrations
from trainload.hardware.catalogue import find_device
from trainload.predict.curves import Curves
from trainload.predict.limits import limits_of, usable_dtype
from trainload.predict.several import SHARED_BUS, bus_bytes_per_s, exchange_seconds
from trainload.predict.step import Asked, predict_step
from trainload.predict.transfer import Predictor

KINDS = {
    "Quadro RTX 8000": "quadro-rtx-8000",
    "V100 16GB": "v100-sxm2-16gb",
    "A100 40GB PCIe": "a100-pcie-40gb",
    "A100 80GB SXM4": "a100-sxm4-80gb",
    "RTX A6000": "rtx-a6000",
    "H100 80GB SXM5": "h100-sxm",
}
CONSTANT = 0.966
APART = 1.15
BUSES = (5e9, 8e9, 1.2e10, 2e10, 3e10, 5e10, 1e11)
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tables", type=Path)
    parser.add_argument("--keep", metavar="ROW", help="keep the figures as this row")
    words = parser.parse_args()
    rows = published_rows(words.tables / "throughput_lambda.csv")
    ones = [row for row in rows if row["count"] == 1]
    for row in ones:
        row |= predicted_row(row)
    pairs = _pairs(ones)
    _print_ratios(ones, pairs)
    _print_ranking(ones)
    scaled = _several(rows)
    if words.keep:
        keep("predict_devices", words.keep, figures={"pairs": pairs, "several": scaled})


def published_rows(path: Path) -> list[Row]:
    """The table with names of the catalogue; batch is of each device, USD of all at purchase."""
    found = []
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            kind = next(name for name in KINDS if row["device"].endswith(name))
            count = int(row["devices"])
            found.append(
                {
                    "host": re.sub(r"\s?\b[248]x\s?", " ", row["device"]).strip(),
                    "device": KINDS[kind],
                    "count": count,
                    "precision": row["precision"],
                    "model": row["model"],
                    "batch": max(int(row["batch_all_devices"]) // count, 1),
                    "items_per_s": float(row["items_per_s"]),
                    "usd": float(row["price_usd"]),
                }
            )
    return found


def predicted_row(row: Row) -> Row:
    """Items a second, with its range, of the row's device without its own calibration."""
    device = find_device(row["device"])
    limits = limits_of(device)
    others = [one for name, one in _curves().items() if name != row["device"]]
    works, items = vendor_works(row["model"], row["batch"], row["precision"] == "fp16")
    said = predict_step(
        Asked(
            works=works,
            device=device,
            limits=limits,
            predictor=Predictor(limits, None, others),
            dispatch_s={},
            other_host_s=shipped_host(),
            idle_w=None,
            count=row["count"],
            gradient_bytes=4.0 * PARAMETERS[row["model"]],
        )
    )
    items *= row["count"]
    peaks = [limits.peaks[usable_dtype(work.dtype, limits) or "float32"] for work in works]
    bare = sum(
        max(work.flops / peak, work.bytes / limits.bandwidth)
        for work, peak in zip(works, peaks, strict=True)
    )
    half = "float16" if row["precision"] == "fp16" else "tf32"
    return {
        "predicted": items / said.step_s.value,
        "low": items / said.step_s.high,
        "high": items / said.step_s.low,
        "roofline": items / bare,
        "peak": row["count"] * limits.peaks[usable_dtype(half, limits) or "float32"],
        "bound": said.bound,
    }


_KNOWN: dict[str, Curves] = {}


def _curves() -> dict[str, Curves]:
    if not _KNOWN:
        for name, one in load_calibrations().items():
            limits = limits_of(find_device(name))
            if limits is not None and not limits.is_cpu:
                _KNOWN[name] = Curves(one, limits)
    return _KNOWN


def _pairs(ones: list[Row]) -> list[Row]:
    """Every given and predicted device of one model and precision, each host's row apart."""
    found = []
    for given in ones:
        for row in ones:
            same = (given["model"], given["precision"]) == (row["model"], row["precision"])
            if not same or given["device"] == row["device"]:
                continue
            scale = given["items_per_s"] / given["predicted"]
            found.append(
                {
                    "model": row["model"],
                    "precision": row["precision"],
                    "given": given["host"],
                    "device": row["device"],
                    "host": row["host"],
                    "truth": row["items_per_s"],
                    "predicted": row["predicted"] * scale,
                    "low": row["low"] * scale,
                    "high": row["high"] * scale,
                    "by_peak": given["items_per_s"] * row["peak"] / given["peak"],
                    "by_roofline": given["items_per_s"] * row["roofline"] / given["roofline"],
                }
            )
    return found


def _print_ratios(ones: list[Row], pairs: list[Row]) -> None:
    print("one device's figure given, the other left out: mean error of items a second")
    print(
        f"{'':22}{'pairs':>6}{'error':>8}{'in range':>10}{'peaks':>8}"
        f"{'rooflines':>11}{'absolute':>10}"
    )
    _print_groups(ones, pairs, "device")
    _print_groups(ones, pairs, "model")
    _print_groups(ones, pairs, "precision")
    _print_line("all", pairs, ones)
    apart = [
        abs(one["items_per_s"] / other["items_per_s"] - 1)
        for one in ones
        for other in ones
        if one is not other and _same(one, other)
    ]
    print(f"the same board in two hosts: {len(apart)} pairs, mean difference {np.mean(apart):.1%}")


def _same(one: Row, other: Row) -> bool:
    return all(one[key] == other[key] for key in ("device", "count", "model", "precision"))


def _print_groups(ones: list[Row], pairs: list[Row], key: str) -> None:
    for name in dict.fromkeys(row[key] for row in pairs):
        some = [row for row in pairs if row[key] == name]
        _print_line(name, some, [row for row in ones if row[key] == name])


def _print_line(name: str, some: list[Row], ones: list[Row]) -> None:
    inside = np.mean([row["low"] <= row["truth"] <= row["high"] for row in some])
    absolute = np.mean([abs(row["predicted"] / row["items_per_s"] - 1) for row in ones])
    print(
        f"{name:22}{len(some):6}{_error(some, 'predicted'):8.1%}{inside:10.1%}"
        f"{_error(some, 'by_peak'):8.1%}{_error(some, 'by_roofline'):11.1%}{absolute:10.1%}"
    )


def _error(rows: list[Row], key: str) -> float:
    return float(np.mean([abs(row[key] / row["truth"] - 1) for row in rows]))


def _print_ranking(ones: list[Row]) -> None:
    """Pairs of devices whose published figures differ by 15 %: are they in the right order?"""
    said: dict[str, list[bool]] = {"predicted": [], "peak": [], "roofline": []}
    for at, one in enumerate(ones):
        for other in ones[at + 1 :]:
            if (one["model"], one["precision"]) != (other["model"], other["precision"]):
                continue
            ratio = one["items_per_s"] / other["items_per_s"]
            if one["device"] == other["device"] or 1 / APART < ratio < APART:
                continue
            for name, right in said.items():
                right.append((one[name] > other[name]) == (ratio > 1))
    print(
        f"\nranking: {len(said['predicted'])} pairs that differ by 15 %, right order: "
        + ", ".join(f"{name} {np.mean(right):.1%}" for name, right in said.items())
    )


@cache
def _items(model: str, batch: int) -> float:
    return vendor_works(model, batch, True)[1]


def _scaling(row: Row, bus: float | None) -> tuple[float, float]:
    """Predicted efficiency of several devices, and its relative error."""
    waited = exchange_seconds(
        find_device(row["device"]),
        row["count"],
        4 * PARAMETERS[row["model"]],
        row["step_s"],
        bus=bus,
    )
    share = 1 / (1 + waited / row["step_s"])
    return share, abs(share / row["truth"] - 1)


def _several(rows: list[Row]) -> list[Row]:
    ones = {(r["host"], r["precision"], r["model"]): r for r in rows if r["count"] == 1}
    found = []
    for row in rows:
        one = ones.get((row["host"], row["precision"], row["model"]))
        if row["count"] == 1 or one is None:
            continue
        items = _items(row["model"], row["batch"])
        truth = row["items_per_s"] / one["items_per_s"] / row["count"]
        found.append({**row, "step_s": items / one["items_per_s"], "truth": truth})
    for device in dict.fromkeys(row["device"] for row in found):
        others = [row for row in found if device != row["device"]]
        others = [
            row for row in others if bus_bytes_per_s(find_device(row["device"])) == SHARED_BUS
        ]
        # Refitted without the device; one on a switch keeps what its maker states.
        bus = None
        if bus_bytes_per_s(find_device(device)) == SHARED_BUS:
            bus = min(
                BUSES, key=lambda one: np.quantile([_scaling(row, one)[1] for row in others], 0.9)
            )
        for row in found:
            if row["device"] == device:
                row["share"], row["error"] = _scaling(row, bus)
                row["bus_bytes_per_s"] = bus
    print("\nseveral devices against one: error of items a second")
    errors: list[tuple[str, Callable[[Row], float]]] = [
        ("predicted", lambda row: row["error"]),
        (f"constant {CONSTANT}", lambda row: abs(CONSTANT / row["truth"] - 1)),
    ]
    for device in (*dict.fromkeys(row["device"] for row in found), "all"):
        some = [row for row in found if device in (row["device"], "all")]
        words = []
        for name, error in errors:
            each = [error(row) for row in some]
            words.append(f"{name}: median {np.median(each):.1%}, p90 {np.quantile(each, 0.9):.1%}")
        print(f"{device:18}{len(some):5}  " + "; ".join(words))
    groups = [[one["truth"] for one in found if _same(row, one)] for row in found]
    apart = [
        abs(row["truth"] / np.median(group) - 1)
        for row, group in zip(found, groups, strict=True)
        if len(group) > 1
    ]
    print(
        f"the same boards in several hosts: {len(apart)} rows, from their median: "
        f"median {np.median(apart):.1%}, p90 {np.quantile(apart, 0.9):.1%}"
    )
    return found


if __name__ == "__main__":
    main()
