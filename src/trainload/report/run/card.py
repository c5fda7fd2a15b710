"""A run as one small piece of HTML, for notebooks; a page of its own is `html`'s."""

from trainload.analyse import RunSummary
from trainload.record import Manifest
from trainload.report.cards import CELL
from trainload.report.markup import escape
from trainload.report.run.headline import time_rows
from trainload.report.run.rows import quality_rows, title_of
from trainload.report.wording import render_outcome


def render_card(manifest: Manifest, summary: RunSummary) -> str:
    """Title, outcome, times and quality; styled in place, since a notebook has no style of ours."""
    reason = f": {summary.reason}" if summary.reason else ""
    head = f"<b>{escape(title_of(manifest))}</b> {escape(render_outcome(summary.outcome) + reason)}"
    rows = "".join(
        f"<tr><th {CELL}>{escape(name)}</th><td {CELL}>{escape(value)}</td></tr>"
        for name, value in [*time_rows(summary), *quality_rows(summary, manifest)]
    )
    warnings = "".join(f"<li>{escape(text)}</li>" for text in summary.warnings)
    told = f"<ul>{warnings}</ul>" if warnings else ""
    return f"<div>{head}<br><code>{escape(summary.run_id)}</code><table>{rows}</table>{told}</div>"
