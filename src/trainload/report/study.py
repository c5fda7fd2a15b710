"""A study's plan and status as plain text; draws what it is given and computes nothing.

For verbs that must answer at once: no library is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from trainload.columns import render_columns
from trainload.report.wording import clean_text
from trainload.units import render_bytes, render_seconds, render_value


class CellLike(Protocol):
    """A cell's standing."""

    @property
    def title(self) -> str: ...
    @property
    def standing(self) -> str: ...
    @property
    def repetitions(self) -> int: ...
    @property
    def value(self) -> float | None: ...
    @property
    def reason(self) -> str | None: ...


class StatusLike(Protocol):
    """A study's status, wherever it comes from."""

    @property
    def name(self) -> str: ...
    @property
    def metric(self) -> str: ...
    @property
    def planned(self) -> int: ...
    @property
    def done(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def running(self) -> int: ...
    @property
    def queued(self) -> int: ...
    @property
    def left_s(self) -> float | None: ...
    @property
    def runs(self) -> int: ...
    @property
    def disturbed(self) -> int: ...
    @property
    def run_s(self) -> float: ...
    @property
    def energy_j(self) -> float | None: ...
    @property
    def stopping(self) -> bool: ...
    @property
    def cells(self) -> Sequence[CellLike]: ...


@dataclass(frozen=True, kw_only=True)
class PlannedCell:
    """One cell of a plan."""

    title: str
    seconds: float | None
    memory_bytes: int | None
    fits: bool | None


def render_line(status: StatusLike) -> str:
    """How far it is, in one line."""
    queued = f"{status.queued} queued, " if status.queued else ""
    left = "not known" if status.left_s is None else render_seconds(status.left_s)
    return (
        f"{clean_text(status.name)}: {status.done} of {status.planned} runs done, "
        f"{status.failed} failed, {status.running} running, {queued}about {left} left"
        + (", stopping" if status.stopping else "")
    )


def status_rows(
    status: StatusLike, most: int | None
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Titles and rows of a table of the cells: `most` of them, those that need a look first."""
    order = ("running", "failed", "untrusted", "timed_out", "out_of_memory", "repeating")
    cells = sorted(
        status.cells,
        key=lambda one: order.index(one.standing) if one.standing in order else len(order),
    )
    shown = cells if most is None else cells[:most]
    rows: list[tuple[str, ...]] = [
        (
            clean_text(one.title),
            one.standing.replace("_", " "),
            str(one.repetitions),
            "–" if one.value is None else render_value(status.metric, one.value),
            clean_text(one.reason or ""),
        )
        for one in shown
    ]
    return ("cell", "state", "runs", clean_text(status.metric), ""), rows


def render_status(status: StatusLike, most: int | None) -> str:
    """The line, and the table of the cells."""
    titles, rows = status_rows(status, most)
    spent = f"{status.runs} runs took {render_seconds(status.run_s)}"
    if status.energy_j is not None:
        spent += f" and {render_value('energy_j', status.energy_j)}"
    lines = [render_line(status), spent]
    if status.disturbed:
        lines.append(f"{status.disturbed} of them count though other work took much of the machine")
    lines += ["", render_columns(titles, rows, {2, 3})]
    if len(rows) < len(status.cells):
        lines.append(f"… and {len(status.cells) - len(rows)} cells more; --all lists them")
    return "\n".join(lines)


def render_planned(
    name: str,
    cells: Sequence[PlannedCell],
    *,
    repetitions: tuple[int, int],
    settled: int,
    seconds: float | None,
    measured: bool,
    disk_bytes: int | None,
    energy_j: float | None,
    absent: Sequence[tuple[str, str]],
    most: int | None,
) -> str:
    """A plan: its size, what it will take, and the cells in the order they run."""
    least, highest = repetitions
    times = str(least) if least == highest else f"{least} to {highest}"
    runs = str(len(cells) * least)
    if highest > least:
        runs += f" to {len(cells) * highest}"
    how = "by the runs so far" if measured else "rough, until a run has been measured"
    lines = [
        f"{name}: {len(cells)} cells × {times} repetitions = {runs} runs, {settled} done",
        f"time:   {_or_unknown(seconds, render_seconds)}"
        + (f" ({how}), one run after the other" if seconds is not None else ""),
        f"disk:   {_or_unknown(disk_bytes, render_bytes)}",
        "energy: "
        + (
            "not known before a run has measured it"
            if energy_j is None
            else render_value("energy_j", energy_j)
        ),
        "",
    ]
    shown = cells if most is None else cells[:most]
    rows = [
        (
            str(number),
            one.title,
            "–" if one.seconds is None else render_seconds(one.seconds),
            "–" if one.memory_bytes is None else render_bytes(one.memory_bytes),
            "cannot fit" if one.fits is False else "",
        )
        for number, one in enumerate(shown, 1)
    ]
    lines.append(render_columns(("", "cell", "a run", "memory ≥", ""), rows, {0, 2, 3}))
    if len(shown) < len(cells):
        lines.append(f"… and {len(cells) - len(shown)} cells more; --all lists them")
    unfit = [one.title for one in cells if one.fits is False]
    if unfit:
        lines.append(f"{len(unfit)} cells cannot fit: {'; '.join(unfit[:5])}")
    reasons: dict[str, list[str]] = {}
    for title, reason in absent:
        reasons.setdefault(reason, []).append(title)
    for reason, titles in reasons.items():
        lines.append(f"{len(titles)} cells left out: {reason}")
    return "\n".join(lines)


def _or_unknown(value: float | None, render: object) -> str:
    assert callable(render)
    return "not known: a script alone knows its length" if value is None else str(render(value))
