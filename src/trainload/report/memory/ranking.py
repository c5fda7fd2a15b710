"""One step on several devices as text: which of them it fits, and with how much room left.

Computes nothing; the order is whoever asks'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainload.columns import render_columns
from trainload.estimate.memory.fit import Verdict
from trainload.report.memory.wording import render_chance
from trainload.units import MISSING, render_bytes, render_seconds

TITLES = ("device", "", "needs", "offers", "left", "runs out", "at best a step")


@dataclass(frozen=True, kw_only=True)
class DeviceRow:
    """One device of a ranking."""

    name: str
    """As `--device` takes it."""
    verdict: Verdict
    needed_bytes: int | None
    capacity_bytes: int | None
    left_bytes: int | None
    """What the device offers less what is needed; negative where that is more."""
    running_out: float | None
    step_s: float | None
    """By the roofline."""
    missing: str | None
    """Why nothing was traced."""
    notes: tuple[str, ...]


def render_ranking(head: str, rows: Sequence[DeviceRow]) -> str:
    """What is said first, what is trained, and a table, best first."""
    lines = [
        _said(rows),
        head,
        "",
        render_columns(TITLES, [render_cells(row) for row in rows], {2, 3, 4}),
    ]
    missing = dict.fromkeys(row.missing for row in rows if row.missing)
    lines += [f"  no step was traced: {text}" for text in missing]
    for note in dict.fromkeys(note for row in rows for note in row.notes):
        names = [row.name for row in rows if note in row.notes]
        whose = "" if len(names) == len(rows) else f"{', '.join(names)}: "
        lines.append(f"  {whose}{note}")
    return "\n".join([*lines, "  all about one of them: --device with its name alone"])


def _said(rows: Sequence[DeviceRow]) -> str:
    fitting = [row.name for row in rows if row.verdict == "fits"]
    close = [row.name for row in rows if row.verdict == "too close to call"]
    said = f"fits {', '.join(fitting)}" if fitting else f"surely fits none of {len(rows)} devices"
    return said + (f"; too close to call: {', '.join(close)}" if close else "")


def render_cells(row: DeviceRow) -> tuple[str, ...]:
    """The cells of one device, under TITLES."""
    left = MISSING
    if row.left_bytes is not None:
        left = ("-" if row.left_bytes < 0 else "") + render_bytes(abs(row.left_bytes))
    return (
        row.name,
        row.verdict,
        render_bytes(row.needed_bytes),
        render_bytes(row.capacity_bytes),
        left,
        render_chance(row.running_out),
        MISSING if row.step_s is None else render_seconds(row.step_s),
    )
