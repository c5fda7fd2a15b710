"""Fits the trees that say which workspace cuDNN takes for a convolution, and writes them as data.

    python3 bench/workspace_fit.py FOLDER [--write]

FOLDER is what `bench/memory_truth.py --out FOLDER` left. Prints the errors on convolutions that
were held out: a third of the sweep; all trained models with trees of the sweep alone; and model
families by quarters, each with trees of everything else; the last also as peaks of whole steps.
`--write` then fits all and writes the data file. Needs numpy.
"""

from __future__ import annotations

import argparse
import heapq
import json
import statistics
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import trainload.estimate
from trainload.estimate.workspaces.convolution import (
    BASES,
    FEATURES,
    PARTS,
    Convolution,
    Part,
    base_bytes,
    copies_bytes,
    features,
    may_transform,
    weight_sums_bytes,
    workspace_bytes,
)
from trainload.estimate.workspaces.temporaries import _describe, load_figures
from workspace_check import (
    CONVOLUTION,
    HEAD,
    Case,
    RecordedOp,
    Score,
    StepReplay,
    case_names,
    forget_predictions,
    read_sweep,
)

LEAVES, LEAST_ROWS = 100, 3
PURITY = 3.0
TRAINED_WEIGHT = 3.0
"""Sizes of trained models count as much as three drawn ones."""
FOLDS = 4
DATA = Path(trainload.estimate.__file__).parent / "workspaces" / "sm90.json"


@dataclass(frozen=True, kw_only=True)
class Product:
    """One product of a recorded convolution and the workspace it took."""

    source: str
    trained: bool
    part: Part
    conv: Convolution
    workspace_bytes: int


def split_op(source: str, trained: bool, op: RecordedOp) -> list[Product]:
    """The products of a recorded operation; those beside which tensors were copied are left out."""
    conv, transposed, attributes = _describe(op, op.tf32)
    if conv.groups > 1 and conv.groups == conv.channels and not conv.channels_last:
        return []
    wanted: list[Part] = ["forward"]
    if "backward" in op.name:
        mask = attributes[6]
        wanted = [part for part, asked in zip(PARTS[1:], mask, strict=False) if asked]
    taken: list[list[int]] = [[]]
    order: list[int] = []
    storages = [tensor.storage for tensor in op.outputs]
    for address, size, freed in op.allocations():
        if freed:
            taken[-1].append(size)
        else:
            taken.append([])
            order.append(storages.index(address) if address in storages else -1)
    if order != sorted(order) or taken[0]:  # torch's own depthwise kernels; copies before
        return []
    found: list[Product] = []
    for place, part in enumerate(wanted):
        if len(taken) > place + 1 and len(taken[place + 1]) <= 1:
            asked = part
            if transposed and part != "weight":
                asked = "input" if part == "forward" else "forward"
            size = sum(taken[place + 1])
            made = Product(
                source=source, trained=trained, part=asked, conv=conv, workspace_bytes=size
            )
            found.append(made)
    return found


def read_products(folder: Path) -> list[Product]:
    """All products, equal ones of a kind once."""
    rows = [
        product
        for name, op in read_sweep(folder)
        if op.name in CONVOLUTION
        for product in split_op(name, False, op)
    ]
    for name in case_names(folder / "cases", []):
        for op in Case(folder / "cases", name).ops:
            if op.name in CONVOLUTION:
                rows += split_op(name.split("-")[0], True, op)
    seen: set[Any] = set()
    kept: list[Product] = []
    for row in rows:
        key = (row.source if row.trained else "", row.part, row.conv)
        if key not in seen:
            seen.add(key)
            kept.append(row)
    return kept


class Table:
    """The products of one part and mode as arrays."""

    def __init__(self, part: Part, rows: list[Product]) -> None:
        self.bases = BASES[part]
        convs = [row.conv for row in rows]
        self.asked = np.array([features(conv) for conv in convs], float)
        self.said = np.array([[base_bytes(c, base) for base in self.bases] for c in convs], float)
        self.true = np.array([row.workspace_bytes for row in rows], float)
        self.sums = np.array([weight_sums_bytes(conv) for conv in convs], float)
        whole = np.array([sum(copies_bytes(conv).values()) for conv in convs], float)
        trained = np.array([TRAINED_WEIGHT if row.trained else 1.0 for row in rows])
        # Large workspaces decide what is reserved, but small ones should not be forgotten.
        self.weight = trained / np.sqrt(whole + 2**20)
        most = (2 * whole + 2**22)[:, None]
        loss = np.minimum(np.abs(self.said - self.true[:, None]), most) * self.weight[:, None]
        for column, base in enumerate(self.bases):
            if base in ("winograd", "fourier"):
                barred = np.array([not may_transform(conv, base) for conv in convs])
                loss[barred, column] = (most[:, 0] * self.weight)[barred]
        self.loss = loss
        self.right = np.zeros_like(loss)
        self.right[np.arange(len(loss)), loss.argmin(1)] = np.sqrt(loss.max(1) - loss.min(1))


def _mixed(sums: Any) -> Any:
    """Gini impurity of the formulas that would be right, times their weight."""
    whole = sums.sum(-1)
    return whole - (sums**2).sum(-1) / np.maximum(whole, 1e-9)


def _best_split(table: Table, rows: Any) -> tuple[float, int, float] | None:
    """By the loss it saves; purer sides count a little, as a step towards later gains."""
    least = table.loss[rows].sum(0).min()
    mixed = _mixed(table.right[rows].sum(0))
    scale = PURITY * least / mixed if mixed > 1e-9 else 0.0
    best: tuple[float, int, float] | None = None
    for column in range(len(FEATURES)):
        order = np.argsort(table.asked[rows, column], kind="stable")
        values = table.asked[rows, column][order]
        sums = np.cumsum(table.loss[rows][order], 0)
        cuts = np.nonzero(values[1:] != values[:-1])[0]
        cuts = cuts[(cuts + 1 >= LEAST_ROWS) & (len(rows) - cuts - 1 >= LEAST_ROWS)]
        if not len(cuts):
            continue
        gains = least - sums[cuts].min(1) - (sums[-1] - sums[cuts]).min(1)
        right = np.cumsum(table.right[rows][order], 0)
        purer = mixed - _mixed(right[cuts]) - _mixed(right[-1] - right[cuts])
        gains = gains + scale * purer
        place = int(gains.argmax())
        if gains[place] > 1e-9 and (best is None or gains[place] > best[0]):
            best = (float(gains[place]), column, float(values[cuts[place]]))
    return best


def _leaf(table: Table, rows: Any) -> list[Any]:
    """The formula with the least loss, with or without bytes or weight gradients on top."""
    weight = table.weight[rows]
    options: list[tuple[float, list[Any]]] = []
    for column, base in enumerate(table.bases):
        rest = table.true[rows] - table.said[rows, column]
        plain = float(table.loss[rows, column].sum())
        options.append((plain, [base, 0, 0]))
        if base in ("winograd", "fourier"):
            continue
        extra = max(0.0, _median(rest, weight))
        options.append((1.02 * float(np.abs((rest - extra) * weight).sum()), [base, int(extra), 0]))
        sums = table.sums[rows]
        cuts = round(max(0.0, _median(rest / sums, weight * sums)), 1)
        options.append((1.02 * float(np.abs((rest - cuts * sums) * weight).sum()), [base, 0, cuts]))
    return min(options, key=lambda option: option[0])[1]


def _median(values: Any, weights: Any) -> float:
    order = np.argsort(values)
    sums = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(sums, sums[-1] / 2)])


def grow_tree(table: Table, leaves: int) -> list[Any]:
    """Best split first, until there are so many leaves or nothing is gained."""
    root: dict[str, Any] = {"rows": np.arange(len(table.true))}
    waiting: list[tuple[float, int, dict[str, Any], tuple[float, int, float]]] = []

    def wait(node: dict[str, Any]) -> None:
        split = _best_split(table, node["rows"])
        if split:
            heapq.heappush(waiting, (-split[0], id(node), node, split))

    wait(root)
    for _ in range(leaves - 1):
        if not waiting:
            break
        _, _, node, (_, column, value) = heapq.heappop(waiting)
        low = table.asked[node["rows"], column] <= value
        node["split"] = (column, value)
        node["sides"] = [{"rows": node["rows"][low]}, {"rows": node["rows"][~low]}]
        for side in node["sides"]:
            wait(side)
    return _written(table, root)


def _written(table: Table, node: dict[str, Any]) -> list[Any]:
    if "split" not in node:
        return _leaf(table, node["rows"])
    column, value = node["split"]
    value = int(value) if value == int(value) else value
    sides = [_written(table, side) for side in node["sides"]]
    return sides[0] if sides[0] == sides[1] else [column, value, *sides]


def fit(rows: list[Product]) -> dict[str, dict[str, Any]]:
    """A tree for each part and mode."""
    trees: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
    for part in PARTS:
        modes = sorted({row.conv.mode for row in rows if row.part == part})
        for mode in modes:
            chosen = [row for row in rows if row.part == part and row.conv.mode == mode]
            leaves = LEAVES if mode.endswith("full") else LEAVES // 2
            trees[part][mode] = grow_tree(Table(part, chosen), leaves)
    return trees


def score(label: str, rows: list[Product], trees: dict[str, Any], scores: dict[str, Score]) -> None:
    """Adds the errors on rows that the trees have not seen."""
    for row in rows:
        said = workspace_bytes(row.conv, row.part, trees)
        for name in (f"{label} {row.part}", label):
            scores.setdefault(name, Score()).add(said, row.workspace_bytes)
        if not row.trained:
            name = f"{label} {row.part} {row.conv.mode}"
            scores.setdefault(name, Score()).add(said, row.workspace_bytes)


def print_held_out(rows: list[Product]) -> None:
    """The three tables of held-out errors."""
    drawn = [row for row in rows if not row.trained]
    trained = [row for row in rows if row.trained]
    scores: dict[str, Score] = {}

    def third(row: Product) -> bool:
        return zlib.crc32(row.source.encode()) % 3 == 0

    trees = fit([row for row in drawn if not third(row)])
    score("third of the sweep", [row for row in drawn if third(row)], trees, scores)
    score("models, by the sweep", trained, fit(drawn), scores)
    for fold in range(FOLDS):
        out = [row for row in trained if _fold(row.source) == fold]
        names = {row.source for row in out}
        rest = [row for row in rows if not (row.trained and row.source in names)]
        score("models, by the others", out, fit(rest), scores)
    print("held out\n" + HEAD)
    for name in sorted(scores):
        print(scores[name].render(name))


def print_held_out_steps(folder: Path, rows: list[Product]) -> None:
    """Peaks of whole trainings, each model with trees that have not seen it."""
    figures: Any = load_figures()
    shipped = figures["convolutions"]
    errors: dict[int, list[float]] = {0: [], 1: []}
    print("\nsteps of models held out: error of the peaks, allocated and reserved")
    for fold in range(FOLDS):
        names = {row.source for row in rows if row.trained and _fold(row.source) == fold}
        figures["convolutions"] = fit(
            [row for row in rows if not (row.trained and row.source in names)]
        )
        forget_predictions()
        chosen = [n for n in case_names(folder / "cases", []) if n.split("-")[0] in names]
        kept = [Case(folder / "cases", name) for name in chosen]
        for case in kept:
            run = StepReplay(case, recorded=False)
            found: list[float] = []
            for which, key in enumerate(("allocated_peak", "reserved_peak")):
                said = max(run.peaks[step][which] for step in ("step2", "step3"))
                true = max(case.points[step][key] for step in ("step2", "step3"))
                found.append(said / true - 1)
                errors[which].append(abs(found[-1]))
            print(f"{case.name:40s} {found[0]:+8.2%} {found[1]:+8.2%}", flush=True)
    figures["convolutions"] = shipped
    for what, pick in (("median", statistics.median), ("worst", max)):
        print(f"{what:40s} {pick(errors[0]):8.2%} {pick(errors[1]):8.2%}")


def _family(source: str) -> str:
    """Models that share sizes: resnet50, zoo_resnet152 and resnet50_channels_last are resnet."""
    word = source.removeprefix("zoo_")
    return next((word[:n] for n, letter in enumerate(word) if not letter.isalpha()), word)


def _fold(source: str) -> int:
    return zlib.crc32(_family(source).encode()) % FOLDS


LIBRARIES = {
    "cublas_workspace_bytes": {
        "sm90": 33_554_432,
        "sm100": 33_554_432,
        "sm120": 33_554_432,
        "other": 8_519_680,
    },
    "cublaslt_workspace_bytes": 1_048_576,
}
SOURCE = {
    "convolutions": "bench/workspace_fit.py --write over bench/memory_truth.py on an NVIDIA H200, "
    "torch 2.11, cuDNN 9.19, CUDA 13.0; see the docstring of workspaces_convolution.py",
    "cublas_workspace_bytes": "parseChosenWorkspaceSize in torch's "
    "aten/src/ATen/cuda/CublasHandlePool.cpp: 32 MiB on Hopper, in newer versions also on "
    "Blackwell (majors 10 and 12; before, as others), else 2 x 4,096 + 8 x 16 KiB; sm90 measured "
    "there, the others not",
    "cublaslt_workspace_bytes": "parseCUDABlasLtWorkspaceSize in the same file: 1,024 KiB; "
    "measured there",
}


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help=f"write {DATA.name}")
    parser.add_argument("--quiet", action="store_true", help="no held-out errors")
    words = parser.parse_args()
    rows = read_products(words.folder)
    print(f"{len(rows)} products", flush=True)
    if not words.quiet:
        print_held_out(rows)
        print_held_out_steps(words.folder, rows)
    if words.write:
        found = {
            "source": SOURCE,
            "features": FEATURES,
            "libraries": LIBRARIES,
            "convolutions": fit(rows),
        }
        DATA.write_text(json.dumps(found, separators=(",", ":")).replace('],"', '],\n"') + "\n")


if __name__ == "__main__":
    main()
