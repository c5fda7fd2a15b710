"""Units of other people's columns: what a unit's word means here, and names that carry it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from trainload.errors import UsageError
from trainload.units import unit_of

_UNITS: Mapping[str, tuple[str, float]] = {
    "fraction": ("_fraction", 1.0), "%": ("_fraction", 0.01), "percent": ("_fraction", 0.01),
    "W": ("_power_w", 1.0), "mW": ("_power_w", 1e-3), "kW": ("_power_w", 1e3),
    "J": ("_energy_j", 1.0), "mJ": ("_energy_j", 1e-3), "kJ": ("_energy_j", 1e3),
    "Wh": ("_energy_j", 3.6e3), "kWh": ("_energy_j", 3.6e6),
    "B": ("_bytes", 1.0), "bytes": ("_bytes", 1.0),
    "kB": ("_bytes", 1e3), "MB": ("_bytes", 1e6), "GB": ("_bytes", 1e9),
    "KiB": ("_bytes", 2.0**10), "MiB": ("_bytes", 2.0**20), "GiB": ("_bytes", 2.0**30),
    "B/s": ("_bytes_per_s", 1.0), "MB/s": ("_bytes_per_s", 1e6), "MiB/s": ("_bytes_per_s", 2.0**20),
    "C": ("_celsius", 1.0), "celsius": ("_celsius", 1.0),
    "Hz": ("_hz", 1.0), "MHz": ("_hz", 1e6), "GHz": ("_hz", 1e9),
    "s": ("_s", 1.0), "ms": ("_s", 1e-3), "us": ("_s", 1e-6), "min": ("_s", 60.0),
    "h": ("_s", 3.6e3),
    "V": ("_v", 1.0), "mV": ("_v", 1e-3), "A": ("_a", 1.0), "mA": ("_a", 1e-3),
    "count": ("_count", 1.0),
}  # fmt: skip
"""Suffix of the name here, and what one of the unit is in it. Case counts: mW is no MW."""
_SHORT = {"_power_w": ("_power", "_w"), "_energy_j": ("_energy", "_j")}


@dataclass(frozen=True, kw_only=True)
class ColumnPlan:
    """What becomes of one column: its name here, and what its values are multiplied by."""

    source: str
    column: str
    factor: float = 1.0
    raw: bool = False
    """Kept as it stood, since nothing tells its unit."""


def parse_units(words: list[str]) -> dict[str, str]:
    """COLUMN=UNIT words; UsageError for another, or for a unit that is not known."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, unit = word.rpartition("=")
        if not equals or not name:
            raise UsageError(f"--unit {word}: write COLUMN=UNIT, such as --unit board=W")
        if unit not in _UNITS:
            raise UsageError(f"--unit {word}: no such unit; known: {', '.join(_UNITS)}")
        found[name] = unit
    return found


def plan_column(name: str, units: Mapping[str, str], own: str | None = None) -> ColumnPlan:
    """The plan of a column: by what the user says, else by its format's own unit, else raw.

    A name that already ends in a unit of trainload's is taken at its word.
    """
    unit = units.get(name, own)
    base = slug(name)
    if unit is not None:
        suffix, factor = _UNITS[unit]
        return ColumnPlan(source=name, column=with_suffix(base, suffix), factor=factor)
    if unit_of(base) is not None:
        return ColumnPlan(source=name, column=base)
    return ColumnPlan(source=name, column=base, raw=True)


def is_unit(word: str) -> bool:
    """Whether a unit's word is known."""
    return word in _UNITS


def with_suffix(base: str, suffix: str) -> str:
    """The name with its unit at the end, not said twice: `gpu_power` and W give `gpu_power_w`."""
    if base.endswith(suffix):
        return base
    stem, short = _SHORT.get(suffix, ("", ""))
    if stem and base.endswith(stem):
        return base + short
    return base + suffix


def slug(name: str) -> str:
    """A column name of letters, digits and underscores; `column` where nothing is left."""
    return re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_")[:120] or "column"


def number_of(text: str) -> float | None:
    """The number that a cell holds; None for words and for what is no finite number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) < 1e18 else None
