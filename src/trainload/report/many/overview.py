"""The first section of the page of many runs: what was compared, what it shows, what is missing."""

from __future__ import annotations

import statistics
from collections import Counter

from trainload.analyse.study import Finding
from trainload.report.many.view import ManyRuns
from trainload.report.markup import escape, render_details, render_table
from trainload.report.wording import (
    clean_text,
    render_metric,
    render_name,
    render_outcome,
    render_sentence,
)
from trainload.units import MISSING, render_percent, render_seconds

MOST_LEVELS = 8
"""Of one factor that are named; of more, their number tells."""
MOST_MISSING = 300
LARGE = 2.0
"""From this ratio on, times are told and no percentages."""


def render_overview(many: ManyRuns) -> str:
    """Title, what was compared, the findings, the counts, what is missing and the own overhead."""
    return (
        f'<section id="overview"><h2>{escape(many.title)}</h2>'
        f'<p class="lead">{escape(_compared(many))}</p>'
        f"{_render_findings(many)}{_render_cards(many)}{_render_changes(many)}"
        f"{_render_missing(many)}"
        f'<p class="overhead">{escape(render_sentence(_overhead(many)))}</p></section>'
    )


def _compared(many: ManyRuns) -> str:
    if not many.runs and not many.planned:
        return "This study is empty: it has no cells and no runs yet."
    if not many.tidy.factors:
        return "Nothing that was asked for differs between these runs: they are repetitions."
    parts = [
        f"{clean_text(name)} ({_named(levels)})"
        for name, levels in many.levels.items()
        if len(levels) > 1
    ]
    if not parts:
        return "There is one cell: nothing differs between its runs but chance."
    return f"Compared: {' × '.join(parts)}. What else differs stands under Configuration."


def _named(levels: object) -> str:
    assert isinstance(levels, list)
    shown = ", ".join(clean_text(level) for level in levels[:MOST_LEVELS])
    more = f" and {len(levels) - MOST_LEVELS} more" if len(levels) > MOST_LEVELS else ""
    return shown + more


def _render_findings(many: ManyRuns) -> str:
    counted = sum(shown.reason is None for shown in many.runs)
    if not counted:
        runs = "No run counts" if many.runs else "No run was made"
        return f'<div class="warnings"><p>{runs}, so nothing can be compared.</p></div>'
    findings = many.overview.findings
    if not findings:
        alone = "There is one run that counts, and" if counted == 1 else "All runs are alike, so"
        return f'<p class="quiet">{alone} nothing to compare it with.</p>'
    items = "".join(f"<li>{escape(render_finding(finding))}</li>" for finding in findings)
    number = {1: "What the runs show", 2: "The two findings that matter"}.get(
        len(findings), "The three findings that matter"
    )
    return f'<div class="advice"><h3>{number}</h3><ol>{items}</ol></div>'


def render_finding(finding: Finding) -> str:
    """One finding as a sentence; `~` stands before what is not decided."""
    name = render_name(finding.metric)
    if finding.kind == "best":
        value = render_metric(finding.metric, finding.value)
        first = f"Best {name}: {clean_text(finding.cell)} with {value} (n = {finding.n})"
        if not finding.tied:
            return f"{first}; every other cell is worse."
        if finding.tied == finding.others:
            return f"~ {first}, but no other cell can be told from it by these repetitions."
        return f"~ {first}; {finding.tied} of {finding.others} other cells cannot be told from it."
    if finding.kind == "undecided":
        names = ", ".join((name, *map(render_name, finding.also)))
        count = f"{finding.n} run{'' if finding.n == 1 else 's'}"
        few = " Repeat the cells: one run of each says nothing." if finding.n < 2 else ""
        return (
            f"~ {names[:1].upper()}{names[1:]}: none of {finding.others} comparisons with the "
            f"reference is decided (at most {count} of a cell).{few}"
        )
    change = render_change(finding.metric, finding.effect, ratio=finding.ratio)
    low = render_change(finding.metric, finding.low, ratio=finding.ratio)
    high = render_change(finding.metric, finding.high, ratio=finding.ratio)
    return (
        f"{name[:1].upper()}{name[1:]}: {clean_text(finding.factor)} {clean_text(finding.level)} "
        f"against {clean_text(finding.base)}: {change} ({low} … {high}, n = {finding.n} pairs of "
        "cells)."
    )


def render_change(metric: str, change: float | None, *, ratio: bool) -> str:
    """A change against the reference: +12 %, × 3.4, or a difference in the metric's unit."""
    if change is None:
        return MISSING
    if not ratio:
        sign = "−" if change < 0 else "+"
        return f"{sign}{render_metric(metric, abs(change))}"
    if change + 1 >= LARGE:
        times = change + 1
        return f"× {times:,.0f}" if times >= 1000 else f"× {times:.3g}"
    return f"{'−' if change < 0 else '+'}{abs(change) * 100:.1f} %"


def _render_cards(many: ManyRuns) -> str:
    outcomes = Counter(
        "not readable" if shown.figures is None else render_outcome(shown.figures.outcome)
        for shown in many.runs
    )
    counted = sum(shown.reason is None for shown in many.runs)
    told = ", ".join(f"{count} {word}" for word, count in outcomes.most_common())
    cells = many.tidy.frame["cell"].n_unique() if many.runs else 0
    missing = many.tidy.missing.height
    lacking = f"{missing} without a run that counts" if missing else "each with a run that counts"
    spent = [
        shown.figures.metrics["duration_s"]
        for shown in many.runs
        if shown.figures and "duration_s" in shown.figures.metrics
    ]
    cards = [
        ("Runs", f"{len(many.runs):,}", told or "none"),
        ("Counted", f"{counted:,}", "completed and not doubted"),
        ("Cells", f"{max(many.planned, cells):,}", lacking),
        ("Time of all runs", render_seconds(sum(spent)) if spent else MISSING, "one after another"),
    ]
    items = "".join(
        f"<div><dt>{escape(label)}</dt><dd>{escape(figure)}<small>{escape(small)}</small></dd></div>"
        for label, figure, small in cards
    )
    return f'<dl class="cards">{items}</dl>'


def _render_changes(many: ManyRuns) -> str:
    """How many levels do better or worse than the reference, for each metric."""
    rows = []
    for metric in many.overview.metrics:
        counts = many.overview.counts(metric)
        if sum(counts.values()) > counts["missing"]:
            rows.append((render_name(metric), *(str(count) for count in counts.values())))
    if not rows:
        return ""
    base = ", ".join(f"{name} {level}" for name, level in many.tidy.base.items())
    titles = ("levels against the reference", "better", "worse", "~ undecided", "missing")
    table = render_table(titles, rows, label="Levels against the reference", numbers=range(1, 5))
    return f'{table}<p class="quiet">Reference: {escape(base)}.</p>'


def _render_missing(many: ManyRuns) -> str:
    """Cells without a run that counts, by reason, and metrics that only some runs tell."""
    reasons: dict[str, list[str]] = {}
    for cell, reason in many.tidy.missing.select("cell", "reason").iter_rows():
        reasons.setdefault(reason or "not known", []).append(cell)
    blocks = []
    if reasons:
        rows = [
            (clean_text(cell), clean_text(reason))
            for reason, cells in reasons.items()
            for cell in cells
        ]
        more = ""
        if len(rows) > MOST_MISSING:
            more = f'<p class="quiet">{len(rows) - MOST_MISSING:,} more are left out here.</p>'
        table = render_table(("cell", "why it is missing"), rows[:MOST_MISSING], label="Missing")
        told = ", ".join(
            f"{len(cells)} {clean_text(reason)[:80]}" for reason, cells in list(reasons.items())[:3]
        )
        blocks.append(render_details(f"{len(rows)} cells are missing: {told}", table + more))
    lines = (*_partly_told(many), *many.notes)
    blocks += [f'<p class="quiet">{escape(render_sentence(line))}</p>' for line in lines]
    if many.problems:
        items = "".join(f"<li>{escape(name)}: {escape(why)}</li>" for name, why in many.problems)
        blocks.append(f'<div class="warnings"><h3>Not read</h3><ul>{items}</ul></div>')
    return "".join(blocks)


def _partly_told(many: ManyRuns) -> list[str]:
    counted = many.tidy.counted
    lines = []
    for metric in many.overview.metrics:
        known = int(counted[metric].count())
        if known < counted.height:
            lines.append(
                f"{render_name(metric)} is told by {known} of {counted.height} runs that count; "
                "the others have no meter or score for it"
            )
    return lines


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _overhead(many: ManyRuns) -> str:
    """The instrument's own overhead over all runs, as far as it was resolved."""
    found = [shown.run.manifest.overhead for shown in many.runs if shown.run is not None]
    resolved = [o.ratio - 1 for o in found if o is not None and o.verdict == "resolved" and o.ratio]
    noisy = sum(o is not None and o.verdict == "not_resolvable" for o in found)
    told = []
    if resolved:
        middle = render_percent(statistics.median(resolved))
        low, high = render_percent(min(resolved)), render_percent(max(resolved))
        several = f"the median of {len(resolved)} runs ({low} … {high})"
        told.append(f"{middle} in {several if len(resolved) > 1 else '1 run'}")
    if noisy:
        told.append(f"not resolvable in {_runs(noisy)}, where noise is larger")
    if rest := len(found) - len(resolved) - noisy:
        told.append(f"not measured in {_runs(rest)}")
    return f"own overhead: {'; '.join(told) or 'not measured'}"
