"""Named groups of a log pattern: which there are, their units, and a match turned into numbers.

Knows nothing of any particular log, and reads no file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Final

Reading = dict[str, float | int]
"""What one line says: counters as whole numbers, times in seconds, the rest as printed."""

COUNTERS: Final[Mapping[str, str]] = {
    "epoch": "number of the epoch",
    "epochs": "how many epochs there will be",
    "iteration": "number of the iteration, in its epoch where epochs are printed",
    "iterations": "how many iterations there will be, in the epoch or in all",
    "last_epoch": "number of the last epoch, counted from 0, where that is printed for `epochs`",
}
DURATIONS: Final[Mapping[str, str]] = {
    "time": "one iteration",
    "mean_time": "mean of an iteration since the epoch began",
    "later_mean_time": "mean of an iteration since the epoch's first one ended",
    "lap": "since the line before",
    "epoch_elapsed": "since the epoch began",
    "elapsed": "since training began",
    "epoch_time": "the whole epoch",
    "validation_time": "one validation",
    "total_time": "the whole training",
}
RATES: Final[Mapping[str, str]] = {
    "rate_per_s": "iterations in a second, of late",
    "mean_rate_per_s": "iterations in a second since the progress bar began",
    "samples_per_s": "samples in a second; a time where the batch size is known",
}
PROGRESS = "epoch_progress"
"""Epochs done so far, with a fraction: the place in training where no iteration is printed."""
TIMESTAMP = "timestamp"

_SCALES: Final[Mapping[str, float]] = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_DIVISORS: Final[Mapping[str, float]] = {"us": 1e6, "ms": 1e3}
_DURATION = re.compile(rf"({'|'.join(DURATIONS)})_(clock|{'|'.join(_SCALES)})\Z")
_CLOCK = re.compile(r"(?:(\d+) ?days?,? ?)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)\Z")
MOST_SECONDS = 1e9
"""Thirty years: what is longer is no duration of a training but something else misread."""


@cache
def column_of(group: str) -> str:
    """The column a group's value goes to: a duration's is in seconds whatever was printed."""
    duration = _DURATION.match(group)
    return f"{duration[1]}_s" if duration else group


@cache
def _unit_of(group: str) -> str | None:
    """The unit of a duration; None for what is none."""
    duration = _DURATION.match(group)
    return duration[2] if duration else None


def misnamed_group(group: str) -> str | None:
    """Why a group's name cannot be used; None where it can."""
    if group in DURATIONS:
        units = ", ".join(f"{group}_{unit}" for unit in (*_SCALES, "clock"))
        return f"group {group!r} states no unit; name it one of {units}"
    if group in ("rate", "samples"):
        return f"group {group!r} states no unit; name it {group}_per_s"
    return None


def read_groups(found: Mapping[str, str | None]) -> Reading:
    """The numbers of one match; what was not printed or is no number is left out."""
    reading: Reading = {}
    for group, text in found.items():
        if text is None or group == TIMESTAMP:
            continue
        value = _counter(text) if group in COUNTERS else _quantity(group, text)
        if value is not None:
            reading[column_of(group)] = value
    return reading


def _counter(text: str) -> int | None:
    text = text.strip().replace(",", "")
    # int() takes any script's digits and refuses thousands of them; both are no counter here.
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else None


def _quantity(group: str, text: str) -> float | None:
    unit = _unit_of(group)
    if unit == "clock":
        return _clock_s(text)
    try:
        value = float(text)
    except ValueError:
        return None
    if unit is not None:
        # Dividing by a whole number rounds once; multiplying by 0.001 would round twice.
        value = value / _DIVISORS[unit] if unit in _DIVISORS else value * _SCALES[unit]
        return value if 0.0 <= value <= MOST_SECONDS else None
    if group in RATES:
        return value if 0.0 < value < math.inf else None
    return value


def _clock_s(text: str) -> float | None:
    """Seconds of `03:25`, `1:02:03` or `2 days, 1:02:03`."""
    clock = _CLOCK.match(text.strip())
    if clock is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in clock.groups())
    value = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return value if value <= MOST_SECONDS else None
