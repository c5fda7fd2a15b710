"""What one part of the chaos counted, and its line in the table; tries nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

PEAK_LIMIT_MB = 500.0
"""Memory that one process of ours may reach while it reads or records."""

_DEFECTS = (
    "tracebacks", "hangs", "invalid_json", "touched_outside", "runs_lost", "library_aborts",
)  # fmt: skip
_COLUMNS = ("trials", *_DEFECTS)
_KEPT_COMPLAINTS = 20


@dataclass(kw_only=True)
class Tally:
    """Counts of one part; `complaints` say what happened in each defect, the first ones only."""

    part: str
    trials: int = 0
    tracebacks: int = 0
    hangs: int = 0
    invalid_json: int = 0
    touched_outside: int = 0
    """Files outside of the run directory that were made, changed or removed."""
    runs_lost: int = 0
    """Runs that ended otherwise than without us, or whose record does not read back so."""
    library_aborts: int = 0
    """Times that a library ended a process of ours from below Python, or wrote to its terminal."""
    peak_mb: float | None = None
    """Highest resident memory of a process of ours; None where it was not measured."""
    complaints: list[str] = field(default_factory=list)

    def complain(self, defect: str, what: str) -> None:
        """Count one defect by the name of its field, and keep its words."""
        assert defect in _DEFECTS, defect
        setattr(self, defect, getattr(self, defect) + 1)
        if len(self.complaints) < _KEPT_COMPLAINTS:
            self.complaints.append(f"{defect}: {what}")

    def see_peak(self, peak_mb: float | None) -> None:
        """Keep the highest of the figures seen."""
        if peak_mb is not None:
            self.peak_mb = max(peak_mb, self.peak_mb or 0.0)

    @property
    def broken(self) -> bool:
        """Whether anything that must be 0 is not, or too much memory was taken."""
        return any(getattr(self, name) for name in _DEFECTS) or (
            self.peak_mb is not None and self.peak_mb > PEAK_LIMIT_MB
        )


def render_table(tallies: Sequence[Tally]) -> str:
    """One line a part under a heading, then what each defect was."""
    heads = [name.replace("_", " ") for name in _COLUMNS]
    lines = ["  ".join([f"{'part':12}", *heads, "peak MB"])]
    for tally in tallies:
        cells = [
            f"{getattr(tally, name):{len(head)},}"
            for name, head in zip(_COLUMNS, heads, strict=True)
        ]
        peak = "-" if tally.peak_mb is None else f"{tally.peak_mb:.0f}"
        lines.append("  ".join([f"{tally.part:12}", *cells, f"{peak:>7}"]))
    lines += [f"  {tally.part}: {words}" for tally in tallies for words in tally.complaints]
    return "\n".join(lines)
