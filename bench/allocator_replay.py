"""Feeds recorded histories of the real CUDA allocator to trainload's simulation of it.

    python bench/allocator_replay.py FOLDER_OR_FILES… [--addresses recorded] [--json FILE]

Takes the `*.history.jsonl.gz` that bench/memory_truth.py wrote, or a table of them that
bench/raw.py keeps. For each it prints how far the simulated reserved bytes are from the recorded
ones at the peak and at the worst moment, and whether a capped run ran out where the real one did;
the last line is the worst of all. Needs no framework.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from raw import load_rows
from trainload.estimate.memory.allocator import CachingAllocator

WITHIN = 0.02
_ELSEWHERE = 1 << 60
_ONE = ".history.jsonl.gz"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One history: what the real allocator did beside the simulated one."""

    name: str
    events: int
    recorded_peak_reserved_bytes: int
    simulated_peak_reserved_bytes: int
    simulated_peak_allocated_bytes: int
    worst_error_fraction: float
    """Largest difference of reserved bytes after any event, as a share of the recorded."""
    recorded_out_of_memory: bool
    simulated_out_of_memory: bool

    @property
    def peak_error_fraction(self) -> float:
        """Signed difference of the peaks, as a share of the recorded one."""
        recorded = self.recorded_peak_reserved_bytes
        return (self.simulated_peak_reserved_bytes - recorded) / recorded


class Addresses:
    """Where the real driver put its segments, handed out again by size."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[int]] = defaultdict(list)
        self._next = _ELSEWHERE

    def note(self, size: int, address: int) -> None:
        """A segment of the recording."""
        self._waiting[size].append(address)

    def place(self, size: int) -> int:
        """The recorded address of such a segment, or one far away where none is known."""
        if self._waiting[size]:
            return self._waiting[size].pop(0)
        self._next += size
        return self._next


@dataclass(frozen=True, kw_only=True)
class History:
    """What the real allocator did in one process."""

    name: str
    head: dict[str, Any]
    rows: list[list[Any]]
    """[code, bytes, address, stream], codes in memory_recorder.read_history."""


def load_histories(path: Path) -> Iterator[History]:
    """The one history of a `.history.jsonl.gz`, or those of a table."""
    if not path.name.endswith(_ONE):
        for row in load_rows(path):
            yield History(name=row["name"], **row["figures"])
        return
    with gzip.open(path, "rt") as stream:
        head, *rows = map(json.loads, stream)
    yield History(name=path.name.removesuffix(_ONE), head=head, rows=rows)


def compare(history: History, *, recorded_addresses: bool) -> Comparison:
    """Replay one recording."""
    head, rows = history.head, history.rows
    addresses = Addresses()
    place = addresses.place if recorded_addresses else None
    allocator = CachingAllocator(head.get("cap_bytes"), place=place)
    reserved = peak = 0
    worst = 0.0
    ran_out = failed = False
    for code, size, address, stream in rows:
        if code in ("s", "r"):
            reserved += size if code == "s" else -size
            peak = max(peak, reserved)
            if code == "s":
                addresses.note(size, address)
            continue
        if code == "a":
            failed |= allocator.allocate(address, size, stream) is not None
        elif code in ("f", "c") and allocator.holds(address):
            allocator.free(address)
        elif code == "o":
            ran_out = True
            failed |= allocator.allocate("what did not fit", size, stream) is not None
        if reserved:
            worst = max(worst, abs(allocator.reserved_bytes - reserved) / reserved)
    return Comparison(
        name=history.name,
        events=len(rows),
        recorded_peak_reserved_bytes=peak,
        simulated_peak_reserved_bytes=allocator.peak_reserved_bytes,
        simulated_peak_allocated_bytes=allocator.peak_allocated_bytes,
        worst_error_fraction=worst,
        recorded_out_of_memory=ran_out,
        simulated_out_of_memory=failed,
    )


def _print(found: Comparison) -> None:
    ends = ""
    if found.recorded_out_of_memory or found.simulated_out_of_memory:
        agree = found.recorded_out_of_memory == found.simulated_out_of_memory
        ends = "  out of memory in both" if agree else "  OUT OF MEMORY IN ONE ONLY"
    print(
        f"{found.name:55s} {found.events:7d} events  "
        f"{found.recorded_peak_reserved_bytes / 2**20:9.0f} MiB  "
        f"peak {found.peak_error_fraction:+8.3%}  worst {found.worst_error_fraction:8.3%}{ends}"
    )


def main() -> int:
    """Exit status 1 where a curve is further off than 2 %."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path, help="histories, folders or tables of them")
    parser.add_argument(
        "--addresses",
        choices=("simulated", "recorded"),
        default="simulated",
        help="where segments lie: in the order they come, or where the driver put them",
    )
    parser.add_argument("--json", type=Path, help="write every comparison there")
    words = parser.parse_args()
    files = [
        file
        for path in words.paths
        for file in (sorted(path.rglob(f"*{_ONE}")) if path.is_dir() else [path])
    ]
    found = []
    for history in (history for file in files for history in load_histories(file)):
        comparison = compare(history, recorded_addresses=words.addresses == "recorded")
        if comparison.recorded_peak_reserved_bytes:
            found.append(comparison)
            _print(comparison)
    if not found:
        print("no history with events", file=sys.stderr)
        return 2
    if words.json:
        words.json.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n")
    worst = max(each.worst_error_fraction for each in found)
    print(f"worst of {len(found)} histories: {worst:.3%} (allowed {WITHIN:.0%})")
    return int(worst > WITHIN)


if __name__ == "__main__":
    sys.exit(main())
