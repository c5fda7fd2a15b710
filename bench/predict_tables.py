"""The public per-operation tables as calibrations: read, converted, shipped as small samples.

    python bench/predict_tables.py TABLES          write the shipped files from the tables' folder

TABLES is a folder with op_conv.csv.gz, op_linear.csv.gz, op_bmm.csv.gz and op_vector.csv.gz of
NeuSight's data set (github sitar-lab/NeuSight, MIT licence), trimmed. A shipped file holds a seeded
sample of each class, so that it stays small.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import random
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from trainload.hardware.calibrations import (
    Calibration,
    Point,
    load_calibrations,
    save_calibration,
)
from trainload.hardware.catalogue import find_device
from trainload.predict.curves import HOST_FLOOR
from trainload.predict.host import usual_rates
from trainload.predict.limits import limits_of

DEVICES = {
    "Tesla P4": "p4",
    "Tesla P100-PCIE-16GB": "p100-pcie-16gb",
    "Tesla V100-PCIE-32GB": "v100-pcie-32gb",
    "Tesla T4": "t4",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
}
SAMPLE = {
    "linear": 1000,
    "bmm": 1150,
    "conv": 1000,
    "elementwise": 800,
    "softmax": 330,
    "norm": 330,
}
SEED = 15
FILES = Path(__file__).resolve().parent.parent / "src/trainload/hardware/calibrations/files"
SOURCE = (
    "NeuSight's data set (github sitar-lab/NeuSight, MIT licence, Copyright (c) sitar-lab): "
    "forward latency of single operations, float32, a seeded sample of its rows"
)
LACKS = (
    "backward",
    "bfloat16",
    "float16",
    "tf32",
    "power",
    "dispatch",
    "convolutions other than 3×3 with stride 1",
    HOST_FLOOR,
)


def table_points(folder: Path) -> dict[str, list[Point]]:
    """Every row of the tables as a point, by device of the catalogue."""
    found: dict[str, list[Point]] = {name: [] for name in DEVICES.values()}
    for table, convert in (
        ("linear", _linear),
        ("bmm", _bmm),
        ("conv", _conv),
        ("vector", _vector),
    ):
        for row in _rows(folder / f"op_{table}.csv.gz"):
            found[DEVICES[row["device"]]].append(convert(row, float(row["latency_ms"]) / 1e3))
    return found


def sampled(points: list[Point], counts: dict[str, int], seed: int) -> list[Point]:
    """So many points of each class, by a seeded draw; fewer where there are not as many."""
    drawn: list[Point] = []
    for operation, count in counts.items():
        rows = [point for point in points if point.operation == operation]
        drawn += random.Random(f"{seed} {operation}").sample(rows, min(count, len(rows)))
    return drawn


@cache
def shipped_host() -> Mapping[str, float]:
    """Rates of a known host, as the product takes them from the shipped calibrations."""
    return usual_rates(
        one.dispatch_s
        for name, one in load_calibrations().items()
        if not limits_of(find_device(name)).is_cpu
    )


def table_calibration(device: str, points: list[Point]) -> Calibration:
    """A shipped calibration of one device of the tables."""
    conv = any(point.operation == "conv" for point in points)
    return Calibration(
        device=device,
        points=tuple(points),
        dispatch_s={},
        idle_w=None,
        taken_at="2024-01-01",
        software={"torch": "2.1", "cudnn": "8.9", "cuda": "12.1"},
        source=SOURCE,
        lacks=LACKS if conv else (*LACKS, "convolutions"),
    )


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        yield from csv.DictReader(stream)


def _linear(row: dict[str, str], seconds: float) -> Point:
    m, n, k = int(row["batch"]) * int(row["m"]), int(row["n"]), int(row["k"])
    return Point(
        operation="linear",
        dtype="float32",
        sizes={"m": m, "n": n, "k": k},
        flops=2.0 * m * n * k,
        bytes=4.0 * (m * k + k * n + m * n),
        seconds=seconds,
    )


def _bmm(row: dict[str, str], seconds: float) -> Point:
    batch, m, n, k = (int(row[name]) for name in ("batch", "m", "n", "k"))
    return Point(
        operation="bmm",
        dtype="float32",
        sizes={"batch": batch, "m": m, "n": n, "k": k},
        flops=2.0 * batch * m * n * k,
        bytes=4.0 * batch * (m * k + k * n + m * n),
        seconds=seconds,
    )


def _conv(row: dict[str, str], seconds: float) -> Point:
    batch, ins, outs = (int(row[name]) for name in ("batch", "channels_in", "channels_out"))
    kernel, size, stride = (int(row[name]) for name in ("kernel", "size_in", "stride"))
    out = (size + 2 * int(row["padding"]) - kernel) // stride + 1
    return Point(
        operation="conv",
        dtype="float32",
        sizes={
            "batch": batch,
            "in_channels": ins,
            "out_channels": outs,
            "height": size,
            "width": size,
            "kernel": kernel,
            "stride": stride,
            "groups": 1,
        },
        flops=2.0 * batch * out**2 * ins * outs * kernel**2,
        bytes=4.0 * (batch * (ins * size**2 + outs * out**2) + ins * outs * kernel**2),
        seconds=seconds,
    )


def _vector(row: dict[str, str], seconds: float) -> Point:
    rows, width, name = int(row["rows"]), int(row["width"]), row["op"]
    if name in ("softmax", "ln"):
        return Point(
            operation="softmax" if name == "softmax" else "norm",
            dtype="float32",
            sizes={"rows": rows, "width": width},
            flops=0.0,
            bytes=8.0 * rows * width,
            seconds=seconds,
        )
    operands = 3 if name in ("add", "div", "mul") else 2
    return Point(
        operation="elementwise",
        dtype="float32",
        sizes={"elements": rows * width, "operands": operands},
        flops=0.0,
        bytes=4.0 * operands * rows * width,
        seconds=seconds,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tables", type=Path)
    words = parser.parse_args()
    for device, points in table_points(words.tables).items():
        kept = table_calibration(device, sampled(points, SAMPLE, SEED))
        path = save_calibration(kept, FILES / f"{device}.json")
        print(f"{path.name:24} {len(kept.points):6} points {path.stat().st_size / 1e3:6.0f} kB")


if __name__ == "__main__":
    main()
