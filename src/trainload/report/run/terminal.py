"""Runs and machines on a terminal, as rich renderables; the caller prints them.

Text of others enters as plain `Text`, so that no markup in it is obeyed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from trainload.analyse import RunSummary
from trainload.analyse.findings import NO_STEPS
from trainload.hardware import Machine
from trainload.record import Manifest, RecordedMeter
from trainload.report.run.headline import time_rows
from trainload.report.run.marks import mark_rows
from trainload.report.run.rows import (
    counter_rows,
    energy_rows,
    given_rows,
    job_rows,
    load_rows,
    machine_rows,
    meter_rows,
    quality_rows,
    title_of,
)
from trainload.report.wording import clean_text, render_outcome, render_overhead, render_sampler

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_OUTCOME_STYLES: Mapping[str | None, str] = {"completed": "bold green", None: "bold cyan"}
MOST_CORE_COLUMNS = 16
_CORE = re.compile(r"(host|tegra)_cpu\d+_")
_PROVENANCE_STYLES = {"measured": "green", "derived": "yellow", "unavailable": "red"}


def render_summary(summary: RunSummary, manifest: Manifest) -> RenderableType:
    """One run: outcome, warnings, time, quality, loads, energy, own overhead."""
    from rich.console import Group
    from rich.text import Text

    style = _OUTCOME_STYLES.get(summary.outcome, "bold red")
    head = Text.assemble(
        (render_outcome(summary.outcome), style), "  ", (title_of(manifest), "bold")
    )
    if NO_STEPS in summary.warnings:
        # A green word alone would say that there is something to see.
        told = (render_outcome(summary.outcome), "bold yellow")
        head = Text.assemble(told, f", but {NO_STEPS}\n", (title_of(manifest), "bold"))
    if summary.reason and summary.outcome != "completed":
        head.append(f"\n{clean_text(summary.reason)}")
    head.append(f"\n{clean_text(summary.run_id)}", "dim")
    origin = manifest.imported
    if origin is not None:
        head = Text.assemble(("imported", "bold cyan"), "  ", (title_of(manifest), "bold"))
        head.append(f"\n{clean_text(summary.run_id)}", "dim")
        if summary.outcome != "completed":
            head.append(f"\n{render_outcome(summary.outcome)}: {clean_text(summary.reason or '')}")
    parts: list[RenderableType] = [head]
    others = [warning for warning in summary.warnings if warning != NO_STEPS]
    parts += [Text(f"warning: {clean_text(warning)}", "yellow") for warning in others]
    if origin is not None and origin.figures:
        parts += [
            Text(),
            _table(("stated by its source", "value", "deviation"), given_rows(origin)),
        ]
        if not summary.steps and not summary.samples.total and not summary.epochs:
            return Group(*parts)  # no more than these figures is known
    figures = [*time_rows(summary), *quality_rows(summary, manifest), *job_rows(manifest.job)]
    parts += [Text(), _pairs([*figures, *mark_rows(manifest)])]
    cores = _crowded_cores(summary)
    loads = load_rows(summary, manifest)
    if loads:
        rows = [(r.column, r.mean, r.max, r.provenance) for r in loads if r.column not in cores]
        parts += [
            Text(),
            _table((f"load over {summary.covered}", "mean", "max", "provenance"), rows),
        ]
    if cores:
        parts.append(Text(f"{len(cores)} columns by core are in the report and in --json", "dim"))
    energy = energy_rows(summary)
    if energy:
        titles = (f"energy over {summary.covered}", "energy", "mean power", "provenance")
        parts += [Text(), _table(titles, energy)]
    amounts = counter_rows(summary, manifest)
    if amounts:
        parts += [
            Text(),
            _table((f"counter over {summary.covered}", "amount", "provenance"), amounts),
        ]
    parts += [
        Text(),
        Text(render_overhead(manifest.overhead)),
        Text(render_sampler(manifest.sampler)),
    ]
    return Group(*parts)


def _crowded_cores(summary: RunSummary) -> frozenset[str]:
    """Columns by core where there are too many to read; none on a small machine."""
    by_core = [name for name in summary.columns if _CORE.match(name)]
    return frozenset(by_core if len(by_core) > MOST_CORE_COLUMNS else ())


def render_detect(machine: Machine, meters: Iterable[RecordedMeter]) -> RenderableType:
    """A machine and every meter on it: provenance, source, refresh, and why one is missing."""
    from rich.console import Group
    from rich.text import Text

    titles = ("meter", "column", "provenance", "source", "refresh", "reason")
    return Group(
        Text("machine", "bold"),
        _pairs(machine_rows(machine)),
        Text(),
        _table(titles, meter_rows(meters), numbers=False),
    )


def _pairs(rows: Sequence[tuple[str, str]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(overflow="fold")
    for label, value in rows:
        table.add_row(Text(label, "dim"), Text(value))
    return table


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = True) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for position, title in enumerate(titles):
        right = numbers and 0 < position < len(titles) - 1
        table.add_column(title, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, _PROVENANCE_STYLES.get(cell, "")) for cell in row))
    return table
