"""Joins what step_truth.py left: works of each step beside the seconds of their kernels.

    python bench/step_points.py FOLDER --keep h200
    python bench/step_points.py --rows h200 --add-to FILES/h200.json

FOLDER has steps.jsonl, profile.jsonl and the op traces. A work is matched with the profiled
operation of its class and shapes; where one profiled operation stands for several works (both
gradients of a convolution) they share its seconds as they are predicted. `--keep` puts the rows
under docs/measurements (bench/raw.py). `--add-to` puts operations as they ran within steps beside
the points of a calibration: of each class and type the longest, shortest and those between, 30 at
most; those that were there before are replaced.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from raw import keep, load_figures
from trainload.estimate.counts.operations import plain_name
from trainload.estimate.memory.op_trace import Operation, load_op_trace
from trainload.hardware.calibrations import Point, load_calibrations
from trainload.hardware.calibrations.form import to_document
from trainload.hardware.catalogue import find_device
from trainload.predict.curves import Curves, kind_of
from trainload.predict.limits import limits_of
from trainload.predict.operations import works_of_operation
from trainload.predict.transfer import Predictor
from trainload.predict.work import Work, work_of

MOST = 30
_NAMED = {
    "linear": ("mm", "addmm", "linear", "_addmm_activation", "matmul", "mv"),
    "bmm": ("bmm", "baddbmm"),
    "reduction": ("sum", "mean", "amax", "max", "var", "norm", "argmax", "linalg_vector_norm"),
    "gather": ("embedding", "index", "index_select", "gather"),
    "scatter": ("embedding_dense_backward", "index_put_", "_index_put_impl_", "scatter_add"),
    "copy": ("_to_copy", "clone", "copy_", "cat", "stack", "split_with_sizes_copy"),
    "fill": ("fill_", "zero_", "zeros", "ones"),
}
_PARTS = (
    ("conv", ("conv",)),
    ("attention", ("attention",)),
    ("recurrent", ("rnn", "lstm", "gru")),
    ("norm", ("batch_norm", "layer_norm", "group_norm")),
    ("softmax", ("softmax",)),
    ("pool", ("pool",)),
    ("list", ("_foreach_", "_fused_")),
)
Key = tuple[str, tuple[tuple[int, ...], ...]]


def class_of(name: str) -> str:
    """What a profiled or traced operation does; backward ones apart."""
    plain = name.removeprefix("aten::")
    for found, names in _NAMED.items():
        if plain in names:
            return found
    for found, parts in _PARTS:
        if any(part in plain for part in parts):
            return f"{found}_backward" if "backward" in plain else found
    return "elementwise"


def key_of(name: str, shapes: Iterable[Sequence[int]]) -> Key:
    """Class and the shapes that tell one operation from another."""
    kind = class_of(name)
    sides = tuple(tuple(shape) for shape in shapes if len(shape))
    if kind in ("linear", "bmm"):
        return kind, tuple(shape for shape in sides if len(shape) > 1)[-2:]
    if kind == "list":
        return kind, ()
    return kind, sides[: {"conv": 2, "conv_backward": 3}.get(kind, 1)]


def profiled(operations: Sequence[Sequence[Any]]) -> dict[Key, float]:
    """Seconds of kernels by key."""
    found: dict[Key, float] = defaultdict(float)
    for name, shapes, _types, _count, kernels, seconds in operations:
        if kernels:
            flat: list[Sequence[int]] = []
            for one in json.loads(shapes) or ():
                flat.extend(one if one and isinstance(one[0], list) else [one])
            found[key_of(name, flat)] += seconds
    return found


def traced(path: Path) -> dict[Key, list[Work]]:
    """Works of the trace's last step by key."""
    operations = [one for one in load_op_trace(path).events() if isinstance(one, Operation)]
    last = max(one.step for one in operations)
    found: dict[Key, list[Work]] = defaultdict(list)
    for one in operations:
        if one.step != last:
            continue
        key = key_of(plain_name(one), (tensor.shape for tensor in one.inputs))
        for work in works_of_operation(one):
            if work.name == "convolution_bias":
                image = one.inputs[0] if work.operation == "reduction" else one.outputs[0]
                found[(work.operation, (tuple(image.shape),))].append(work)
            else:
                found[key].append(work)
    return found


def join(works: dict[Key, list[Work]], seconds: dict[Key, float], predictor: Predictor) -> Any:
    """Rows [operation, dtype, sizes, flops, bytes, phase, channels_last, name, count, seconds]."""
    rows: Counter[str] = Counter()
    sums: dict[str, float] = defaultdict(float)
    for key, members in works.items():
        expected = predictor.times(members).seconds
        for work, share in zip(members, expected / expected.sum(), strict=True):
            row = json.dumps(pack(work))
            rows[row] += 1
            if key in seconds:
                sums[row] += float(share) * seconds[key]
    return [[*json.loads(row), count, sums.get(row)] for row, count in rows.items()]


def pack(work: Work) -> list[Any]:
    """A work as a list; its layer is left out."""
    kinds = [work.operation, work.dtype, dict(work.sizes), work.flops, work.bytes]
    return [*kinds, work.phase, work.channels_last, work.name]


def unpack(row: Sequence[Any]) -> Work:
    """A work from its list."""
    names = ("operation", "dtype", "sizes", "flops", "bytes", "phase", "channels_last", "name")
    return Work(**dict(zip(names, row, strict=False)))


def works_of_row(figures: dict[str, Any]) -> list[Work]:
    """Every work of a kept step."""
    return [unpack(row) for row in figures["works"] for _ in range(row[8])]


def points_of(rows: Sequence[dict[str, Any]]) -> list[Point]:
    """Operations as they ran within steps; at most MOST of each class and type."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for figures in rows:
        for row in figures["works"]:
            if row[9] and "tensors" not in row[2]:
                seconds[json.dumps([*row[:5], row[6]])].append(row[9] / row[8])
    groups: dict[tuple[str, str], list[Point]] = defaultdict(list)
    for text, times in seconds.items():
        operation, dtype, sizes, flops, moved, last = json.loads(text)
        if last and (operation.startswith("norm") or "conv" in operation):
            sizes = {**sizes, "channels_last": 1}
        point = Point(
            operation=operation,
            dtype=dtype,
            sizes=sizes,
            flops=flops,
            bytes=moved,
            seconds=statistics.median(times),
            within_step=True,
        )
        groups[(kind_of(work_of(point)), dtype)].append(point)
    found = []
    for members in groups.values():
        members.sort(key=lambda point: -point.seconds)
        found.extend(members[:: max(1, len(members) // MOST)][:MOST])
    return found


def add_points(path: Path, rows: Sequence[dict[str, Any]]) -> int:
    """Write the calibration anew, with the points of these steps; how many they are."""
    calibration = load_calibrations()[path.stem]
    own = tuple(point for point in calibration.points if not point.within_step)
    more = points_of(rows)
    document = to_document(replace(calibration, points=(*own, *more)))
    path.write_text(json.dumps(document, separators=(",", ":"), ensure_ascii=False) + "\n")
    return len(more)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--device", default="h200")
    parser.add_argument("--keep", metavar="ROW")
    parser.add_argument("--rows", metavar="ROW", help="the kept row, in place of a folder")
    parser.add_argument("--add-to", type=Path, metavar="FILE")
    words = parser.parse_args()
    if words.folder is not None:
        limits = limits_of(find_device(words.device))
        own = Curves(load_calibrations()[words.device], limits)
        predictor = Predictor(limits, own, ())
        profiles = {}
        for line in (words.folder / "profile.jsonl").read_text().splitlines():
            profiles[json.loads(line)["case"]] = json.loads(line)
        rows = []
        for line in (words.folder / "steps.jsonl").read_text().splitlines():
            row = json.loads(line)
            profile = profiles[row["case"]]
            works = traced(words.folder / f"{row['case']}.ops.jsonl.gz")
            row["host_s"] = profile["host_s"]
            row["kernels_s"] = sum(one[5] for one in profile["operations"])
            row["works"] = join(works, profiled(profile["operations"]), predictor)
            rows.append(row)
        matched = sum(one[9] or 0.0 for row in rows for one in row["works"])
        whole = sum(row["kernels_s"] for row in rows)
        print(f"{len(rows)} steps; {matched / whole:.1%} of the kernels' time is matched")
        if words.keep:
            keep("step_truth", words.keep, figures=rows)
    else:
        rows = load_figures("step_truth", words.rows)
    if words.add_to is not None:
        print(f"{add_points(words.add_to, rows)} points of steps in {words.add_to}")


if __name__ == "__main__":
    main()
