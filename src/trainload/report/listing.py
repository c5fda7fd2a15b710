"""Runs and studies of a folder as plain text; draws what it is given and computes nothing.

For a verb that must answer at once: no library is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from trainload.columns import render_columns
from trainload.report.wording import clean_text, render_energy, render_outcome
from trainload.units import MISSING, render_bytes, render_seconds

_PEAKS = (("peak_gpu_bytes", "GPU"), ("peak_allocated_bytes", "GPU"), ("peak_host_bytes", "host"))

_STUDY_TITLES = ("study", "runs", "failed", "running", "took", "energy", "where")
_RUN_TITLES = (
    "run", "outcome", "when", "time", "step", "throughput", "peak memory", "energy", "where",
)  # fmt: skip


class RunLine(Protocol):
    """A run as a line."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> Any: ...
    @property
    def outcome(self) -> str | None: ...
    @property
    def outcome_reason(self) -> str | None: ...
    @property
    def created(self) -> str | None: ...
    @property
    def imported(self) -> str | None: ...
    @property
    def metrics(self) -> Mapping[str, float]: ...
    @property
    def problem(self) -> str | None: ...


class StudyLine(Protocol):
    """A study as a line."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> Any: ...
    @property
    def planned(self) -> int | None: ...
    @property
    def done(self) -> int | None: ...
    @property
    def failed(self) -> int | None: ...
    @property
    def running(self) -> int | None: ...
    @property
    def run_s(self) -> float | None: ...
    @property
    def energy_j(self) -> float | None: ...
    @property
    def problem(self) -> str | None: ...


def render_listing(
    runs: Sequence[RunLine], studies: Sequence[StudyLine], notes: Sequence[str], *, left_out: int
) -> str:
    """A table of the studies, one of the runs, and what was left out."""
    parts = []
    if studies:
        rows = [_study_row(study) for study in studies]
        parts.append(render_columns(_STUDY_TITLES, rows, {1, 2, 3, 4, 5}))
    if runs:
        parts.append(render_columns(_RUN_TITLES, [_run_row(run) for run in runs], {3, 4, 5, 6, 7}))
    if not parts:
        parts.append("no runs here")
    told = list(notes)
    if left_out:
        told.append(f"{left_out:,} runs do not fit the filters")
    return "\n\n".join([*parts, *(["\n".join(told)] if told else [])])


def _run_row(run: RunLine) -> tuple[str, ...]:
    where = clean_text(run.path)
    if run.problem is not None:
        empty = (MISSING,) * 6
        return (clean_text(run.name), "cannot be read", *empty, f"{where}: {_short(run.problem)}")
    metrics, outcome = run.metrics, render_outcome(run.outcome)
    if run.imported is not None:
        outcome = f"imported ({clean_text(run.imported)})"
    if run.outcome_reason and run.outcome != "completed":
        where = f"{where}: {_short(run.outcome_reason)}"
    rate = metrics.get("examples_per_s")
    return (
        clean_text(run.name),
        outcome,
        clean_text(run.created or MISSING)[:19].replace("T", " "),
        render_seconds(metrics.get("duration_s")),
        render_seconds(metrics.get("step_s")),
        MISSING if rate is None else f"{rate:,.4g}/s",
        _peak(metrics),
        render_energy(metrics.get("energy_j"), watt_hours=False),
        where,
    )


def _study_row(study: StudyLine) -> tuple[str, ...]:
    if study.problem is not None:
        where = f"{clean_text(study.path)}: {_short(study.problem)}"
        return (clean_text(study.name), "cannot be read", *(MISSING,) * 4, where)
    return (
        clean_text(study.name),
        f"{study.done} of {study.planned}",
        str(study.failed),
        str(study.running),
        render_seconds(study.run_s),
        render_energy(study.energy_j, watt_hours=False),
        clean_text(study.path),
    )


def _peak(metrics: Mapping[str, float]) -> str:
    for name, where in _PEAKS:
        if metrics.get(name):
            return f"{render_bytes(metrics[name])} {where}"
    return MISSING


def _short(text: str, most: int = 100) -> str:
    told = clean_text(text)
    return told if len(told) <= most else f"{told[: most - 1]}…"
