"""Moments that somebody marked while a run went on, as rows of plain text."""

from trainload.record import Manifest
from trainload.report.run.headline import Row
from trainload.report.wording import clean_text
from trainload.units import render_seconds

MOST_ROWS = 20


def mark_rows(manifest: Manifest, most: int = MOST_ROWS) -> list[Row]:
    """A row for each marked moment, the first ones first; the last row counts those left out."""
    rows = [
        (f"mark at {render_seconds(mark.t_s)}", clean_text(mark.words) or "–")
        for mark in manifest.marks[:most]
    ]
    left = len(manifest.marks) - len(rows)
    return [*rows, ("marks", f"{left} more, in run.json")] if left > 0 else rows
