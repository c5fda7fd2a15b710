"""Holds every figure of the catalogue to tables that others made; prints who agrees and who not.

    .venv/bin/python bench/catalogue_check.py [--differences]

Reads bench/second_opinions. A row of Epoch AI's table is found by the name that a figure's source
or second source gives. Ends with 1 where a difference is not explained in the catalogue, where a
figure claims an agreement that is none, or where a checked device lacks what makes it one.
"""

import argparse
import csv
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from trainload.hardware.catalogue import Device, load_catalogue

FOLDER = Path(__file__).parent / "second_opinions"
ROUNDING = 0.03
"""Data sheets round to two digits; a boost clock or a sparse rate is further away than that."""
COLUMNS = {
    "memory_bytes": ("memory_bytes", 2**30 / 1e9),
    "bandwidth_bytes_per_s": ("memory_bandwidth_byte_per_s", 1.0),
    "float32_flop_per_s": ("fp32_flop_per_s", 1.0),
    "tf32_flop_per_s": ("tf32_flop_per_s", 1.0),
    "bf16_flop_per_s": ("tensor_fp16_flop_per_s", 1.0),
    "fp16_flop_per_s": ("tensor_fp16_flop_per_s", 1.0),
    "power_w": ("tdp_w", 1.0),
    "link_bytes_per_s": ("intranode_byte_per_s", 0.5),
}
"""Epoch AI's columns and what they must be multiplied by: it has GB where drivers count GiB, and
both directions of a link."""
HALF = ("bf16_flop_per_s", "fp16_flop_per_s")
PEAKS = ("float32_flop_per_s", "tf32_flop_per_s", *HALF)
OF_PROCESSORS = ("cores", "base_clock_hz", "power_w")


@dataclass(frozen=True, kw_only=True)
class Opinion:
    """A figure of the catalogue and what another table has for it."""

    device: str
    figure: str
    ours: float
    theirs: float
    table: str

    @property
    def agrees(self) -> bool:
        """Within what data sheets round."""
        return abs(self.theirs / self.ours - 1) <= ROUNDING


def read_opinions(folder: Path = FOLDER) -> list[Opinion]:
    """Every figure that a second table has too; a figure taken from that table is left out."""
    with (folder / "epoch_ml_hardware.csv").open(encoding="utf-8") as file:
        epoch = {row["name"]: row for row in csv.DictReader(file)}
    found = []
    for device in load_catalogue().values():
        row_name = _row_of(device)
        if row_name is not None:
            found += _epoch_opinions(device, epoch[row_name])
    with (folder / "others.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            ours = load_catalogue()[row["device"]].value(row["figure"])
            if ours is not None:
                found.append(
                    Opinion(
                        device=row["device"],
                        figure=row["figure"],
                        ours=ours,
                        theirs=float(row["value"]),
                        table=row["source"],
                    )
                )
    return found


def _row_of(device: Device) -> str | None:
    """The row of Epoch AI's table that the entry names; None where it names none."""
    for figure in device.figures.values():
        for text in () if figure is None else (figure.source, figure.also or ""):
            if match := re.search(r"Epoch AI.*, row (.+)$", text):
                return match[1]
    return None


def _epoch_opinions(device: Device, row: dict[str, str]) -> list[Opinion]:
    found = []
    for name, (column, scale) in COLUMNS.items():
        figure = device.figures[name]
        if figure is None or "Epoch AI" in figure.source:
            continue
        text = row[column]
        if not text and name in HALF:
            # Without matrix units' rate the plain one says something only where both are the same.
            plain = row["fp16_flop_per_s"]
            text = plain if plain and abs(float(plain) / figure.value - 1) <= ROUNDING else ""
        if text:
            found.append(
                Opinion(
                    device=device.name,
                    figure=name,
                    ours=figure.value,
                    theirs=float(text) * scale,
                    table="Epoch AI",
                )
            )
    return found


def faults(opinions: list[Opinion]) -> list[str]:
    """What is wrong with the catalogue by these opinions; empty where nothing is."""
    found = []
    agreed = {(one.device, one.figure) for one in opinions if one.agrees}
    for one in opinions:
        figure = load_catalogue()[one.device].figures[one.figure]
        assert figure is not None, one
        if not one.agrees and figure.differs is None:
            found.append(f"{one.device}: {one.figure} differs from {one.table}, not explained")
    for device in load_catalogue().values():
        for name, figure in device.figures.items():
            if figure is not None and figure.also and (device.name, name) not in agreed:
                found.append(f"{device.name}: {name} claims an agreement that no table has")
        if device.checked and not _is_checked(device):
            found.append(f"{device.name}: checked, but no second source agrees on what makes it so")
    return found


def _is_checked(device: Device) -> bool:
    if device.kind == "CPU":
        return all(_twofold(device, name) for name in OF_PROCESSORS)
    whole = ("memory_bytes", "bandwidth_bytes_per_s")
    return all(_twofold(device, name) for name in whole) and any(
        _twofold(device, name) for name in PEAKS
    )


def _twofold(device: Device, name: str) -> bool:
    """Whether the maker's document and a second source state the figure."""
    figure = device.figures[name]
    return figure is not None and figure.also is not None and "Epoch AI" not in figure.source


def main() -> int:
    """Prints the opinions by device, then the sums."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--differences", action="store_true", help="leave out who agrees")
    only_differences = parser.parse_args().differences
    opinions = read_opinions()
    for one in opinions:
        if one.agrees and only_differences:
            continue
        figure = load_catalogue()[one.device].figures[one.figure]
        word = "agrees " if one.agrees else "differs"
        why = "" if one.agrees or figure is None else f"  {figure.differs or 'NOT EXPLAINED'}"
        print(f"{word}  {one.device:24} {one.figure:22} {one.ours:<12.5g} {one.theirs:<12.5g}{why}")
    counts = Counter(one.agrees for one in opinions)
    devices = load_catalogue().values()
    print(
        f"\n{len(opinions)} figures of {len({one.device for one in opinions})} devices compared: "
        f"{counts[True]} agree within {ROUNDING:.0%}, {counts[False]} differ; "
        f"{sum(device.checked for device in devices)} of {len(devices)} devices are checked"
    )
    wrong = faults(opinions)
    print("\n".join(wrong) or "no fault")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
