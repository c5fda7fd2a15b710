"""Whether a run may count: its recorded work against its time and its meters; pure.

Reads a loaded run; what follows from a doubt is decided elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainload.record import Manifest, Run
from trainload.units import render_percent, render_seconds
from trainload.workload import RecordedGraph

if TYPE_CHECKING:
    from trainload.analyse import RunSummary

THROTTLED_FRACTION = 0.05
"""Share of slowed samples from which on a run does not count."""
SILENT_FRACTION = 0.2
CLOCK_S = 5.0
FEWEST_SAMPLES = 5
"""Below, the mean of a load says nothing."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What speaks against counting a run."""

    doubts: tuple[str, ...] = ()
    """Contradictions, one sentence each."""
    other_load_fraction: float | None = None
    """Load of the machine that was not the run's own; None where nobody measured it."""
    figures: dict[str, float] = field(default_factory=dict)
    """The run's headline figures that are known."""


def examine_run(run: Run) -> Findings:
    """What a run's own record says against it; without polars only what run.json tells."""
    from trainload.errors import MissingPart

    try:
        return _examine_tables(run)
    except MissingPart:
        return Findings(doubts=tuple(_manifest_doubts(run.manifest)))


def _examine_tables(run: Run) -> Findings:
    from trainload.analyse import headline_row, summarise_run

    summary = summarise_run(run)
    row = headline_row(run, summary)
    doubts = [
        *_manifest_doubts(run.manifest),
        *_work_doubts(run.manifest, summary),
        *_time_doubts(summary),
        *_throttling_doubts(run),
    ]
    return Findings(
        doubts=tuple(doubts),
        other_load_fraction=_other_load(summary),
        figures={
            name: float(value)
            for name, value in row.items()
            if isinstance(value, int | float)
            and not isinstance(value, bool)
            and math.isfinite(value)
        },
    )


def _manifest_doubts(manifest: Manifest) -> Iterator[str]:
    if manifest.training_completed is False:
        yield "the training did not reach its end although the process ended well"
    clock: Any = manifest.clock
    if clock is None or None in (clock.end_s, clock.end_wall_s, clock.start_wall_s):
        return
    shift_s = (clock.end_wall_s - clock.start_wall_s) - (clock.end_s - clock.start_s)
    if abs(shift_s) > CLOCK_S:
        yield f"the machine slept or its clock was set: it moved by {render_seconds(shift_s)}"


def _work_doubts(manifest: Manifest, summary: RunSummary) -> Iterator[str]:
    """Early stops and missing epochs; a script alone knows how long it is."""
    workload, planned = manifest.workload, manifest.data.total_steps
    if manifest.task != "train" or not isinstance(workload, RecordedGraph):
        return
    if planned is not None and summary.steps < planned:
        yield f"it stopped early: {summary.steps} of {planned} steps"
    training = workload.training
    if training is None or training.max_steps is not None or manifest.continues is not None:
        return
    if summary.epochs < training.epochs:
        yield f"epochs are missing: {summary.epochs} of {training.epochs}"


def _time_doubts(summary: RunSummary) -> Iterator[str]:
    duration_s, covered_s = summary.duration_s, summary.covered_s
    if duration_s is not None and summary.training_s > duration_s + 1.0:
        yield (
            f"its steps take {render_seconds(summary.training_s)} together, "
            f"the whole run {render_seconds(duration_s)}"
        )
    silent_s = summary.samples.gaps_s
    if covered_s and silent_s > max(1.0, SILENT_FRACTION * covered_s):
        yield f"the meters were silent for {render_seconds(silent_s)} of the training"


def _throttling_doubts(run: Run) -> Iterator[str]:
    if not any(column.endswith("_throttle_bits") for column in run.samples.columns):
        return
    from trainload.analyse.attribution.machine import find_machine

    found = find_machine(run)
    if found.throttled_fraction is not None and found.throttled_fraction > THROTTLED_FRACTION:
        share = render_percent(found.throttled_fraction)
        yield f"throttled in {share} of the samples: {found.throttled}"


def _other_load(summary: RunSummary) -> float | None:
    host = summary.columns.get("host_cpu_load_fraction")
    own = summary.columns.get("run_cpu_load_fraction")
    if host is None or own is None or host.mean is None or own.mean is None:
        return None
    if summary.samples.in_training < FEWEST_SAMPLES:
        return None
    return max(0.0, host.mean - own.mean)
