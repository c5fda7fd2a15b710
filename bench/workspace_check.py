"""Holds the rules for workspaces against what was recorded: operation by operation, and end to end.

    python3 bench/workspace_check.py FOLDER [--cases WORD …]

FOLDER is what `bench/memory_truth.py --out FOLDER` left. Three tables are printed:

sweep       convolutions measured one by one: predicted against recorded workspaces
operations  every operation of the recorded steps: temporaries predicted against recorded
steps       each case once more through the allocator simulation, the results and frees as recorded
            but the temporaries inside operations as predicted: peaks against the device's

A temporary is an allocation that its own operation frees again. Needs no framework and no device.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import statistics
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainload.estimate.memory.allocator import CachingAllocator
from trainload.estimate.workspaces.temporaries import Step, Temporaries, temporaries

STEPS = ("step1", "step2", "step3")
CONVOLUTION = ("aten.convolution.default", "aten.convolution_backward.default")
Row = tuple[str, int, Any]
"""Code, bytes, key of an allocation."""
RUN, REACH = 5, 80
"""Events that must agree for two sequences to be alike again, and how far that is looked for."""
NEAR_BYTES = 1 << 20
"""Errors below it count as right: they vanish in the allocator's segments."""


@dataclass(frozen=True, kw_only=True)
class RecordedTensor:
    """A tensor of a recorded operation."""

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None
    storage: int


@dataclass(frozen=True, kw_only=True)
class RecordedOp:
    """A recorded operation, in the form that op traces have, with its allocator events."""

    name: str
    phase: str
    inputs: tuple[RecordedTensor, ...]
    outputs: tuple[RecordedTensor, ...]
    attributes: tuple[Any, ...]
    first: int
    """Position before it: allocations and frees so far."""
    last: int
    events: tuple[tuple[str, int, int], ...]
    """Code, bytes, address of each event inside it."""
    tf32: bool = True

    def taken(self) -> list[int]:
        """Sizes of its temporaries, in order."""
        return [size for _, size, freed in self.allocations() if freed]

    def allocations(self) -> list[tuple[int, int, bool]]:
        """Address, size, whether it frees it again, for each of its allocations."""
        found: list[tuple[int, int, bool]] = []
        for place, (code, size, address) in enumerate(self.events):
            if code == "a":
                later = self.events[place + 1 :]
                freed = any(other[0] in "fq" and other[2] == address for other in later)
                found.append((address, size, freed))
        return found


def read_lines(path: Path) -> Iterator[Any]:
    """The rows of a file, up to where it is cut off."""
    try:
        with gzip.open(path, "rt") as stream:
            for line in stream:
                if line.endswith("\n"):
                    yield json.loads(line)
    except (EOFError, zlib.error):
        return


def _tensors(rows: list[Any]) -> tuple[RecordedTensor, ...]:
    return tuple(
        RecordedTensor(
            shape=tuple(row[0]),
            dtype=row[1],
            strides=None if row[2] is None else tuple(row[2]),
            storage=row[3],
        )
        for row in rows
        if isinstance(row, list)
    )


def make_op(row: list[Any], events: list[Any], *, tf32: bool = True) -> RecordedOp:
    """A recorded row as an operation."""
    return RecordedOp(
        name=row[0],
        phase=row[1],
        inputs=_tensors(row[2]),
        outputs=_tensors(row[3]),
        attributes=tuple(row[4]),
        first=row[5],
        last=row[6],
        events=tuple((event[0], event[1], event[2]) for event in events),
        tf32=tf32,
    )


def read_sweep(folder: Path) -> Iterator[tuple[str, RecordedOp]]:
    """The second run of every trial, each operation with the name of its trial."""
    for path in sorted((folder / "sweep").glob("*.jsonl.gz")):
        for number, row in enumerate(read_lines(path)):
            for op in row["runs"][-1] if row["runs"] else []:
                tf32 = row["options"].get("tf32", True)
                yield f"{path.name}:{number}", make_op(op, op[11], tf32=tf32)


class Case:
    """One recorded training: its points, its history, the operations of its last step."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.points = {
            point["at"]: point
            for point in json.loads((folder / f"{name}.json").read_text())["points"]
        }
        rows = list(read_lines(folder / f"{name}.history.jsonl.gz"))[1:]
        self.events: list[Row] = []
        """Code, bytes, number of the allocation; by position since the context."""
        self.start = self.points["context"]["position"]
        raw: list[Any] = []
        live: dict[int, int] = {}
        for row in rows:
            if row[0] == "a":
                live[row[2]] = len(raw)
            if row[0] in "afq":
                number = live.get(row[2], -1)
                self.events.append(("a" if row[0] == "a" else "f", row[1], number))
                raw.append(row)
        self.ops = [
            make_op(row, raw[row[5] - self.start : row[6] - self.start])
            for row in list(read_lines(folder / f"{name}.ops.jsonl.gz"))[1:]
        ]

    def between(self, first: str, last: str) -> list[Row]:
        """Events between two points."""
        ends = [self.points[at]["position"] - self.start for at in (first, last)]
        return self.events[ends[0] : ends[1]]


def case_names(folder: Path, words: list[str]) -> list[str]:
    """Cases that were recorded without an error and operation by operation."""
    names: list[str] = []
    for path in sorted(folder.glob("*.json")):
        name = path.stem
        if json.loads(path.read_text())["error"] or "recurrent" in name:
            continue
        if not words or any(word in name for word in words):
            names.append(name)
    return names


class Score:
    """Errors of predicted temporaries."""

    def __init__(self) -> None:
        self.count = self.near = self.close = self.wrong = self.true = self.said = 0

    def add(self, said: int, true: int) -> None:
        """One operation's bytes."""
        error = abs(said - true)
        self.count += 1
        self.near += error <= max(0.05 * true, NEAR_BYTES)
        self.close += error <= max(0.20 * true, NEAR_BYTES)
        self.wrong += error
        self.true += true
        self.said += said

    def render(self, label: str) -> str:
        """One line."""
        share = f"{self.wrong / self.true:8.1%}" if self.true else "       –"
        return (
            f"{label:58s} {self.count:6d} {self.near / self.count:7.1%} "
            f"{self.close / self.count:7.1%} {share} {self.true / 2**30:9.2f} GiB"
        )


_PREDICTED: dict[int, Temporaries] = {}
HEAD = f"{'':58s} {'count':>6s} {'5 %':>7s} {'20 %':>7s} {'weighted':>8s} {'recorded':>13s}"


def predict(op: RecordedOp) -> Temporaries:
    """What the rules say about an operation."""
    found = _PREDICTED.get(id(op))
    if found is None:
        found = _PREDICTED[id(op)] = temporaries(op, tf32=op.tf32)
    return found


def forget_predictions() -> None:
    """After the rules have changed."""
    _PREDICTED.clear()


def print_sweep(folder: Path) -> None:
    """Convolutions by direction, type and layout; everything else by name."""
    scores: dict[str, Score] = defaultdict(Score)
    for _, op in read_sweep(folder):
        said, true = temporaries(op, tf32=op.tf32).total_bytes, sum(op.taken())
        label = op.name
        if op.name in CONVOLUTION:
            given = op.inputs[1 if "backward" in op.name else 0]
            last = given.strides is not None and given.strides[1] == 1
            kind = "tf32" if op.tf32 and given.dtype == "float32" else given.dtype
            label = f"{op.name} {kind}{' channels last' if last else ''}"
        if said or true:
            scores[label].add(said, true)
    print("sweep: operations with temporaries\n" + HEAD)
    for label in sorted(scores):
        print(scores[label].render(label))


def print_operations(cases: list[Case], worst: int) -> None:
    """Every operation of the cases by name, and those with the largest errors."""
    scores: dict[str, Score] = defaultdict(Score)
    errors: list[tuple[int, str]] = []
    for case in cases:
        for op in case.ops:
            said, true = predict(op).total_bytes, sum(op.taken())
            if said or true:
                scores[op.name].add(said, true)
                shapes = " ".join("×".join(map(str, t.shape)) for t in op.inputs[:3])
                text = f"{case.name} {op.name} {shapes}: said {said}, recorded {true}"
                errors.append((abs(said - true), text))
    print("\noperations of the recorded steps with temporaries\n" + HEAD)
    for label in sorted(scores, key=lambda name: -scores[name].true):
        print(scores[label].render(label))
    for _, text in sorted(errors, reverse=True)[:worst]:
        print("  " + text)


def align(events: list[Row], pattern: list[Row]) -> dict[int, int]:
    """Places in the events for places in the pattern, where both go on alike by code and size.

    The recorder holds references, so that a few gradients are added and freed otherwise under it.
    """
    left, right = ([(code, size) for code, size, _ in rows] for rows in (events, pattern))
    found: dict[int, int] = {}
    # Only steps after the first begin with giving back gradients.
    i, j = (next((n for n, row in enumerate(side) if row[0] == "a"), 0) for side in (left, right))
    while i < len(left) and j < len(right):
        if left[i] == right[j]:
            found[j] = i
            i, j = i + 1, j + 1
            continue
        for skip in range(1, REACH):
            hit = next(
                (
                    ahead
                    for ahead in range(skip + 1)
                    if left[i + ahead : i + ahead + RUN]
                    == right[j + skip - ahead : j + skip - ahead + RUN]
                    and left[i + ahead : i + ahead + RUN]
                ),
                None,
            )
            if hit is not None:
                i, j = i + hit, j + skip - hit
                break
        else:
            i += 1
    return found


def rewrite(case: Case, events: list[Row]) -> tuple[list[Row], int, int]:
    """The events of a step with predicted temporaries; how many operations, and how many found."""
    place_of = align(events, case.between("step3", "recorded"))
    begin = case.points["step3"]["position"]
    replaced: dict[int, list[Row]] = {}
    wanted = done = 0
    for number, op in enumerate(case.ops):
        steps = predict(op).steps
        if op.first == op.last or not (steps or op.taken()):
            continue
        wanted += 1
        places = [place_of.get(place) for place in range(op.first - begin, op.last - begin)]
        start = places[0]
        if start is None or places != list(range(start, start + len(places))):
            continue
        done += 1
        replaced[start] = _rewritten(events[start : start + len(places)], steps, number)
        for place in range(start + 1, start + len(places)):
            replaced[place] = []
    rows: list[Row] = []
    for place, row in enumerate(events):
        rows += replaced.get(place, [row])
    return rows, wanted, done


def _rewritten(inside: list[Row], steps: tuple[Step, ...], number: int) -> list[Row]:
    """The events of one operation, its temporaries replaced by the given steps."""
    freed = {key for code, _, key in inside if code == "f"}
    own = {key for code, _, key in inside if code == "a"}
    results = [row for row in inside if row[0] == "a" and row[2] not in freed]
    rows: list[Row] = []
    if not any(step.kind == "result" for step in steps):
        rows, results = results, []
    for step in steps:
        key = ("inside", number, step.number)
        if step.kind == "take":
            rows.append(("a", step.size_bytes, key))
        elif step.kind == "give":
            rows.append(("f", 0, key))
        elif results:
            rows.append(results.pop(0))
    return rows + results + [row for row in inside if row[0] == "f" and row[2] not in own]


class StepReplay:
    """A case through the allocator simulation, temporaries as predicted or as recorded."""

    def __init__(self, case: Case, *, recorded: bool) -> None:
        self.allocator = CachingAllocator()
        self.peaks: dict[str, tuple[int, int]] = {}
        self.wanted = self.done = 0
        self._run(case.between("context", "model"))
        ends = ["model", *STEPS]
        for first, last in itertools.pairwise(ends):
            events = case.between(first, last)
            if not recorded:
                events, wanted, done = rewrite(case, events)
                self.wanted, self.done = self.wanted + wanted, self.done + done
            self.allocator.peak_allocated_bytes = self.allocator.allocated_bytes
            self._run(events)
            peak = self.allocator.peak_allocated_bytes
            self.peaks[last] = (peak, self.allocator.peak_reserved_bytes)

    def _run(self, events: list[Row]) -> None:
        for code, size, key in events:
            if code == "a":
                self.allocator.allocate(key, size)
            elif self.allocator.holds(key):
                self.allocator.free(key)


def print_steps(cases: list[Case]) -> None:
    """Peaks of each case with predicted temporaries, against the device's."""
    print("\nsteps: error of the peaks, temporaries as predicted (as recorded in brackets)")
    head = [f"{step} {what}" for step in ("first", "later") for what in ("allocated", "reserved")]
    print(f"{'':40s}" + "".join(f"{text:>27s}" for text in head))
    errors: dict[tuple[str, int, bool], list[float]] = defaultdict(list)
    for case in cases:
        cells: list[str] = []
        runs = {recorded: StepReplay(case, recorded=recorded) for recorded in (False, True)}
        for steps in (("step1",), ("step2", "step3")):
            for which, key in enumerate(("allocated_peak", "reserved_peak")):
                found: dict[bool, float] = {}
                for recorded, run in runs.items():
                    said = max(run.peaks[step][which] for step in steps)
                    true = max(case.points[step][key] for step in steps)
                    found[recorded] = said / true - 1
                    errors[steps[0], which, recorded].append(abs(found[recorded]))
                cells.append(f"{found[False]:+8.2%} ({found[True]:+8.2%})")
        wanted, done = runs[False].wanted, runs[False].done
        note = "" if done == wanted else f"  {done / wanted:.0%} of operations replaced"
        print(f"{case.name:40s}" + "".join(f"{cell:>27s}" for cell in cells) + note)
    for what, pick in (("median", statistics.median), ("worst", max)):
        cells = [
            f"{pick(errors[step, which, False]):8.2%} ({pick(errors[step, which, True]):8.2%})"
            for step in ("step1", "step2")
            for which in (0, 1)
        ]
        print(f"{what:40s}" + "".join(f"{cell:>27s}" for cell in cells))


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", nargs="*", default=[], help="cases whose name has such a word")
    parser.add_argument("--no-sweep", action="store_true", help="cases alone")
    parser.add_argument("--worst", type=int, default=10, help="how many operations to show")
    words = parser.parse_args()
    if not (words.folder / "cases").is_dir():
        sys.exit(f"{words.folder} has no cases; see bench/memory_truth.py")
    if not words.cases and not words.no_sweep:
        print_sweep(words.folder)
    names = case_names(words.folder / "cases", words.cases)
    cases = [Case(words.folder / "cases", name) for name in names]
    print_operations(cases, words.worst)
    print_steps(cases)


if __name__ == "__main__":
    main()
