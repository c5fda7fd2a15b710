"""Figures and verdicts of a reproduction in words, for the terminal and the page alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from trainload.analyse.published import load_published
from trainload.analyse.reproduce import Beside, ClaimFile, Compared, Judged, Observed, Reading
from trainload.units import MISSING

MOST_COMPARED = 3
"""Comparisons of a claim that are written out; the rest are counted."""
CLAIM_TITLES = ("verdict", "claim", "published", "measured here", "why", "place")
OPEN = "cannot tell"


class ReproductionLike(Protocol):
    """What a reproduction found, wherever it comes from."""

    @property
    def file(self) -> ClaimFile: ...
    @property
    def quick(self) -> bool: ...
    @property
    def tables(self) -> tuple[Beside, ...]: ...
    @property
    def judged(self) -> tuple[Judged, ...]: ...
    @property
    def observed(self) -> Observed | None: ...


def render_title(found: ReproductionLike) -> str:
    """`load-analysis, quick form`."""
    return f"{found.file.study}{', quick form' if found.quick else ''}"


def render_counts(judged: Sequence[Judged]) -> str:
    """How many claims were confirmed, contradicted, and left open."""
    counts = Counter[str](one.verdict for one in judged)
    return (
        f"{len(judged)} claims: this machine confirms {counts['confirms']}, "
        f"contradicts {counts['contradicts']}, cannot tell {counts[OPEN]}"
    )


def render_reading(reading: Reading) -> str:
    """The figure with its interval; `~` without one; a dash where there is none."""
    if reading.value is None:
        return MISSING
    if reading.low is None or reading.high is None:
        return f"{_number(reading.value)} ~ (n={reading.runs})"
    return f"{_number(reading.value)} [{_number(reading.low)}, {_number(reading.high)}]"


def render_cell(cell: str | float | Reading | None) -> str:
    """One cell of a table with published and measured figures."""
    if isinstance(cell, Reading):
        return render_reading(cell)
    if cell is None:
        return MISSING
    return cell if isinstance(cell, str) else _number(cell)


def claim_row(one: Judged) -> tuple[str, ...]:
    """A claim in the columns of CLAIM_TITLES."""
    return (
        one.verdict,
        one.claim.says,
        one.claim.published,
        render_compared(one.compared),
        one.reason,
        one.claim.place,
    )


def render_compared(compared: Sequence[Compared]) -> str:
    """The figures of a claim's comparisons, the first few of many."""
    if len(compared) == 1:
        return render_reading(compared[0].reading)
    known = [one for one in compared if one.reading.value is not None]
    shown = [f"{one.short}: {render_reading(one.reading)}" for one in known[:MOST_COMPARED]]
    if len(known) > MOST_COMPARED:
        shown.append(f"and {len(known) - MOST_COMPARED} more")
    return "; ".join(shown) or MISSING


def observer_rows(observed: Observed) -> list[tuple[str, str]]:
    """What the source's monitor did, as labels and figures."""
    times = load_published("load_analysis_results")
    by_size = {
        row["level"]: row["training_time_s"]
        for row in times.filter(times["factor"] == "batch_size").iter_rows(named=True)
    }
    rows = [
        (f"an epoch with the monitor over one without, batch {size}", render_reading(reading))
        for size, reading in observed.inflations
    ]
    rows += [
        ("published: batch 64 over batch 512", _number(by_size["64"] / by_size["512"])),
        ("measured with the monitor: batch 64 over batch 512", render_reading(observed.watched)),
        ("measured without: batch 64 over batch 512", render_reading(observed.plain)),
        (
            "the observer's share of the effect, on a logarithmic scale",
            f"{OPEN}: {observed.reason}"
            if observed.reason is not None
            else render_reading(observed.share),
        ),
    ]
    return rows


def _number(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"
