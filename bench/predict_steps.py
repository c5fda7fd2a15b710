"""Whole training steps on devices left out: published steps beside their predictions.

    python bench/predict_steps.py TABLES [--works WORKS.jsonl] [--keep ROW]

TABLES is the folder with steps_timm_rtx3090_amp.csv and steps_transformers.csv. WORKS.jsonl is what
predict_timm_works.py left: the works of image models (a model it lacks is counted as not covered);
without it those kept under docs/measurements are taken, with it they are kept there by --keep.
Nothing is fitted to either table or to the RTX 3090; the transformers' device is left out of the
calibrations. Beside each a bare roofline and the FLOPs at a constant share of the peak, which is
fitted to the table itself, so that it flatters that rival.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from predict_tables import shipped_host
from raw import keep, load_figures
from trainload.hardware.calibrations import load_calibrations
from trainload.hardware.catalogue import find_device
from trainload.predict.curves import Curves
from trainload.predict.limits import limits_of
from trainload.predict.step import Asked, predict_step
from trainload.predict.transfer import Predictor
from trainload.predict.work import Work


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tables", type=Path)
    parser.add_argument("--works", type=Path)
    parser.add_argument("--keep", metavar="ROW", help="keep the figures as this row")
    words = parser.parse_args()
    lines = _works(words.works)
    rows = _image_models(words.tables / "steps_timm_rtx3090_amp.csv", lines)
    rows += _transformers(words.tables / "steps_transformers.csv")
    if words.keep:
        keep("predict_steps", words.keep, figures=rows)
        keep("predict_timm_works", words.keep, figures=lines)


def step_seconds(works: Sequence[Work], device: str, *, without: Sequence[str] = ()) -> Any:
    """The prediction of a step on a device, from the calibrations but those left out."""
    entry = find_device(device)
    limits = limits_of(entry)
    curves = [
        Curves(one, limits_of(find_device(name)))
        for name, one in _calibrations().items()
        if name not in (*without, device)
    ]
    return predict_step(
        Asked(
            works=works,
            device=entry,
            limits=limits,
            predictor=Predictor(limits, None, curves),
            dispatch_s={},
            other_host_s=shipped_host(),
            idle_w=None,
        )
    )


_KNOWN: dict[str, Any] = {}


def _calibrations() -> dict[str, Any]:
    if not _KNOWN:
        _KNOWN.update(load_calibrations())
    return _KNOWN


def unpacked(rows: Sequence[Any], *, channels_last: bool = False) -> list[Work]:
    """The works of a packed list, each as often as it counts."""
    found = []
    for operation, dtype, sizes, flops, moved, phase, count in rows:
        work = Work(
            operation=operation,
            dtype=dtype,
            sizes=sizes,
            flops=flops,
            bytes=moved,
            phase=phase,
            channels_last=channels_last,
        )
        found += [work] * count
    return found


def _works(path: Path | None) -> list[dict[str, Any]]:
    if path is None:
        kept: list[dict[str, Any]] = load_figures("predict_timm_works", "public-tables")
        return kept
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if "works" in line]


def _image_models(table: Path, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    with table.open(encoding="utf-8", newline="") as stream:
        published = list(csv.DictReader(stream))
    known = {(x["model"], str(x["batch"]), str(x["image_size"])): x["works"] for x in lines}
    device = find_device("rtx-3090")
    limits = limits_of(device)
    predictor = Predictor(
        limits, None, [Curves(c, limits_of(find_device(n))) for n, c in _calibrations().items()]
    )
    rows = []
    for row in published:
        packed = known.get((row["model"], row["batch"], row["image_size"]))
        if packed is None:
            continue
        steps = unpacked(packed, channels_last=row["layout"] == "nhwc")
        asked = Asked(
            works=steps,
            device=device,
            limits=limits,
            predictor=predictor,
            dispatch_s={},
            other_host_s=shipped_host(),
            idle_w=None,
        )
        said = predict_step(asked)
        rows.append(
            _row(f"{row['model']} {row['layout']}", row["layout"], row, steps, said, limits)
        )
    print(f"RTX 3090, fp16: {len(rows)} of {len(published)} published steps covered")
    _summary(rows)
    return rows


def _row(
    name: str, group: str, row: dict[str, str], works: list[Work], said: Any, limits: Any
) -> dict[str, Any]:
    truth = float(row["step_ms"]) / 1e3
    return {
        "name": name,
        "group": group,
        "batch": int(row["batch"]),
        "step_s": truth,
        "predicted_s": said.step_s.value,
        "low_s": said.step_s.low,
        "high_s": said.step_s.high,
        "bound": said.bound,
        "roofline_s": sum(
            max(
                w.flops / limits.peaks.get(w.dtype, limits.peaks["float32"]),
                w.bytes / limits.bandwidth,
            )
            for w in works
        ),
        "flop": said.flop,
    }


def _summary(rows: list[dict[str, Any]]) -> None:
    print(
        f"{'':14}{'rows':>6}{'mean':>8}{'median':>8}{'bias':>8}"
        f"{'in range':>10}{'roofline':>10}{'FLOPs':>8}"
    )
    if not rows:
        return
    for group in (*sorted({row["group"] for row in rows}), "all"):
        some = [row for row in rows if group in (row["group"], "all")]
        truth = np.array([row["step_s"] for row in some])
        said = np.array([row["predicted_s"] for row in some])
        low, high = (np.array([row[key] for row in some]) for key in ("low_s", "high_s"))
        bare = np.array([row["roofline_s"] for row in some])
        flop = np.array([row["flop"] for row in some])
        share = np.exp(np.mean(np.log(truth / flop)))
        median = np.median(np.abs(said / truth - 1))
        inside = np.mean((low <= truth) & (truth <= high))
        print(
            f"{group:14}{len(some):6}{_mean(said, truth):8.1%}{median:8.1%}"
            f"{np.mean(np.log(said / truth)):+8.2f}{inside:10.1%}"
            f"{_mean(bare, truth):10.1%}{_mean(flop * share, truth):8.1%}"
        )


def _mean(said: Any, truth: Any) -> float:
    return float(np.mean(np.abs(said / truth - 1)))


def _transformers(table: Path) -> list[dict[str, Any]]:
    with table.open(encoding="utf-8", newline="") as stream:
        published = list(csv.DictReader(stream))
    device = "v100-pcie-32gb"
    limits = limits_of(find_device(device))
    rows = []
    print(f"\n{device} left out, transformers in float32, forward and backward")
    for row in published:
        works = transformer_works(row["model"], int(row["batch"]), int(row["tokens"]))
        said = step_seconds(works, device, without=[device])
        name = f"{row['model']} batch {row['batch']}"
        rows.append(_row(name, row["model"], row, works, said, limits))
        print(
            f"{name:24}{float(row['step_ms']):9.1f} ms, predicted {said.step_s.value * 1e3:9.1f} ms"
        )
    _summary(rows)
    return rows


_SIZES = {"bert_large": (24, 1024, 16, 30522), "gpt2_large": (36, 1280, 20, 50257)}


def transformer_works(model: str, batch: int, tokens: int) -> list[Work]:
    """A transformer with attention in single operations, float32; no update."""
    blocks, width, heads, vocabulary = _SIZES[model]
    rows, side = batch * tokens, width // heads
    found: list[Work] = []

    def product(m: int, n: int, k: int, many: int = 1) -> None:
        sizes = {"m": m, "n": n, "k": k} if many == 1 else {"batch": many, "m": m, "n": n, "k": k}
        forward = Work(
            operation="linear" if many == 1 else "bmm",
            dtype="float32",
            sizes=sizes,
            flops=2.0 * many * m * n * k,
            bytes=4.0 * many * (m * k + k * n + m * n),
        )
        found.extend([forward, *[replace(forward, phase="backward")] * 2])

    def rowwise(kind: str, count: int, wide: int, operands: int) -> None:
        moved = 4.0 * count * wide * operands
        sizes = {"rows": count, "width": wide}
        if kind == "elementwise":
            sizes = {"elements": count * wide, "operands": operands}
        forward = Work(operation=kind, dtype="float32", sizes=sizes, flops=0.0, bytes=moved)
        found.extend([forward, replace(forward, phase="backward", bytes=1.5 * moved)])

    for _ in range(blocks):
        product(rows, 3 * width, width)
        product(tokens, tokens, side, batch * heads)
        rowwise("elementwise", batch * heads * tokens, tokens, 2)
        rowwise("elementwise", batch * heads * tokens, tokens, 3)
        rowwise("softmax", batch * heads * tokens, tokens, 2)
        rowwise("elementwise", batch * heads * tokens, tokens, 2)
        product(tokens, side, tokens, batch * heads)
        product(rows, width, width)
        product(rows, 4 * width, width)
        rowwise("elementwise", rows, 4 * width, 2)
        product(rows, width, 4 * width)
        for _ in range(2):
            rowwise("norm", rows, width, 2)
            rowwise("elementwise", rows, width, 3)
    product(rows, vocabulary, width)
    rowwise("softmax", rows, vocabulary, 2)
    return found


if __name__ == "__main__":
    main()
