"""Runs and machines on a terminal, as rich renderables; the caller prints them.

Text of others enters as plain `Text`, so that no markup in it is obeyed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from trainload.analyse import RunSummary
from trainload.analyse.findings import told_without_steps
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
from trainload.report.wording import (
    clean_text,
    render_name,
    render_outcome,
    render_overhead,
    render_sampler,
)

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_OUTCOME_STYLES: Mapping[str | None, str] = {"completed": "bold green", None: "bold cyan"}
MOST_CORE_COLUMNS = 16
_KNOWN = "how known"
_CORE = re.compile(r"(host|tegra)_cpu\d+_")
_PROVENANCE_STYLES = {"measured": "green", "derived": "yellow", "unavailable": "red"}


def render_summary(summary: RunSummary, manifest: Manifest) -> RenderableType:
    """All of one run: outcome, warnings, time, quality, loads, energy, own overhead."""
    from rich.console import Group
    from rich.text import Text

    parts = [render_head(summary, manifest)]
    origin = manifest.imported
    if origin is not None and origin.figures:
        given = ("stated by its source", "value", "deviation")
        parts += [Text(), table_of(given, given_rows(origin))]
        if not summary.steps and not summary.samples.total and not summary.epochs:
            return Group(*parts)  # no more than these figures is known
    figures = [*time_rows(summary), *quality_rows(summary, manifest), *job_rows(manifest.job)]
    parts += [Text(), _pairs([*figures, *mark_rows(manifest)])]
    parts += _load_parts(summary, manifest)
    energy = energy_rows(summary)
    if energy:
        titles = (f"energy over {summary.covered}", "energy", "mean power", _KNOWN)
        parts += [Text(), table_of(titles, energy)]
    parts += [
        *_counter_parts(summary, manifest),
        Text(),
        Text(render_overhead(manifest.overhead)),
        Text(render_sampler(manifest.sampler)),
    ]
    return Group(*parts)


def render_head(summary: RunSummary, manifest: Manifest) -> RenderableType:
    """How the run ended, what it was, and every warning."""
    from rich.console import Group
    from rich.text import Text

    style = _OUTCOME_STYLES.get(summary.outcome, "bold red")
    head = Text.assemble(
        (render_outcome(summary.outcome), style), "  ", (title_of(manifest), "bold")
    )
    no_steps = told_without_steps(summary.warnings)
    if no_steps is not None:
        # A green word alone would say that there is something to see.
        told = (render_outcome(summary.outcome), "bold yellow")
        head = Text.assemble(told, f", but {no_steps}\n", (title_of(manifest), "bold"))
    if summary.reason and summary.outcome != "completed":
        head.append(f"\n{clean_text(summary.reason)}")
    head.append(f"\n{clean_text(summary.run_id)}", "dim")
    if manifest.imported is not None:
        head = Text.assemble(("imported", "bold cyan"), "  ", (title_of(manifest), "bold"))
        head.append(f"\n{clean_text(summary.run_id)}", "dim")
        if summary.outcome != "completed":
            head.append(f"\n{render_outcome(summary.outcome)}: {clean_text(summary.reason or '')}")
    others = [warning for warning in summary.warnings if warning != no_steps]
    warned = [Text(f"warning: {clean_text(warning)}", "yellow") for warning in others]
    return Group(head, *warned)


def render_loads(summary: RunSummary, manifest: Manifest) -> RenderableType:
    """Loads and counted amounts under the names that people use, and what watching cost."""
    from rich.console import Group
    from rich.text import Text

    cores = _crowded_cores(summary)
    rows = [
        (render_name(row.column), row.min, row.mean, row.max)
        for row in load_rows(summary, manifest)
        if row.column not in cores
    ]
    parts: list[RenderableType] = []
    if rows:
        titles = (f"load over {summary.covered}", "lowest", "mean", "highest")
        parts += [table_of(titles, rows, last_right=True), *_core_note(cores)]
    else:
        parts.append(Text("no load was sampled"))
    amounts = [(render_name(row[0]), row[1]) for row in counter_rows(summary, manifest)]
    if amounts:
        parts += [
            Text(),
            table_of((f"amount over {summary.covered}", ""), amounts, last_right=True),
        ]
    overhead = render_overhead(manifest.overhead)
    return Group(*parts, Text(), Text(overhead), Text(render_sampler(manifest.sampler)))


def _load_parts(summary: RunSummary, manifest: Manifest) -> list[RenderableType]:
    from rich.text import Text

    loads = load_rows(summary, manifest)
    if not loads:
        return []
    cores = _crowded_cores(summary)
    rows = [(r.column, r.mean, r.max, r.provenance) for r in loads if r.column not in cores]
    titles = (f"load over {summary.covered}", "mean", "max", _KNOWN)
    return [Text(), table_of(titles, rows), *_core_note(cores)]


def _counter_parts(summary: RunSummary, manifest: Manifest) -> list[RenderableType]:
    from rich.text import Text

    amounts = counter_rows(summary, manifest)
    if not amounts:
        return []
    return [Text(), table_of((f"counter over {summary.covered}", "amount", _KNOWN), amounts)]


def _core_note(cores: frozenset[str]) -> list[RenderableType]:
    from rich.text import Text

    if not cores:
        return []
    return [Text(f"{len(cores)} columns by core are in the report and in --json", "dim")]


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
        table_of(titles, meter_rows(meters), numbers=False),
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


def table_of(
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: bool = True,
    last_right: bool = False,
) -> Table:
    """A table with its numbers to the right; the last column is words unless told otherwise."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for position, title in enumerate(titles):
        right = numbers and 0 < position < len(titles) - (0 if last_right else 1)
        table.add_column(title, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, _PROVENANCE_STYLES.get(cell, "")) for cell in row))
    return table
