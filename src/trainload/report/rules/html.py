"""Rules and their verdicts as one self-contained page that runs no script."""

from __future__ import annotations

from trainload.report.markup import (
    escape,
    render_details,
    render_pairs,
    render_table,
    render_verdicts,
)
from trainload.report.page import render_page
from trainload.report.reproduce.wording import render_reading
from trainload.report.rules.wording import (
    LIMIT_TITLES,
    RULE_TITLES,
    RulesLike,
    limit_rows,
    render_counts,
    render_machine,
    render_title,
    rule_row,
)

_BADGES = {"holds": "good", "does not hold": "bad", "cannot tell": "open", "dated": "open"}
_HOLDS = {True: "yes", False: "no", None: "open"}


def render_rules_html(found: RulesLike) -> str:
    """The page as text: verdicts, how each rule was decided, every figure of the machine."""
    return render_page(
        title=render_title(found),
        skip="Skip to the verdicts",
        top=f'<header class="top"><h1>{escape(render_title(found))}</h1></header>',
        sections=(_rules(found), _details(found), _figures(found)),
        footer="Made by trainload. [low, high] bounds a figure at 95 %; ~ marks one with too few "
        "samples for an interval; – is not measured.",
        data=None,
        styles=("report.css",),
        scripts=(),
    )


def _rules(found: RulesLike) -> str:
    table = render_verdicts(RULE_TITLES, map(rule_row, found.judged), _BADGES, label="Rules")
    notes = "".join(f"<p>Note: {escape(note)}.</p>" for note in found.limits.notes)
    return (
        f"<section><h2>Rules</h2><p>{escape(render_counts(found.judged))}.</p>"
        f"<p>Source: {escape(found.file.source)}.</p>"
        f"<p>Machine: {escape(render_machine(found.limits))}.</p>{notes}{table}</section>"
    )


def _details(found: RulesLike) -> str:
    titles = ("check", "figure", "unit", "samples", "as predicted", "why not known")
    parts = []
    for one in found.judged:
        rows = [
            (
                check.words,
                render_reading(check.figure),
                check.unit,
                str(check.figure.runs),
                _HOLDS[check.holds],
                check.figure.reason or "",
            )
            for check in one.checked
        ]
        table = render_table(titles, rows, label=f"Checks of {one.rule.id}", numbers=(1, 3))
        how = render_pairs([("measured by", one.rule.measured_by), ("decides", one.rule.decides)])
        parts.append(render_details(f"{one.rule.id}: {one.verdict}", how + (table if rows else "")))
    return f"<section><h2>How each was decided</h2>{''.join(parts)}</section>"


def _figures(found: RulesLike) -> str:
    table = render_table(LIMIT_TITLES, limit_rows(found.limits), label="Figures of the machine")
    methods = render_pairs([(one.program, one.method) for one in found.limits.measured])
    return (
        f"<section><h2>What the machine reaches</h2>{table}"
        f"{render_details('How each figure was measured', methods)}</section>"
    )
