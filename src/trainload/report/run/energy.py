"""The section on energy, with the other amounts that were counted."""

from trainload.report.markup import render_details, render_table
from trainload.report.run.rows import counter_rows, energy_rows
from trainload.report.run.view import RunView


def render_energy_section(view: RunView) -> str:
    """Joules and watts by source, and the other counters over the same time."""
    summary = view.summary
    energy, counters = energy_rows(summary), counter_rows(summary, view.manifest)
    if energy:
        content = render_table(
            ("source", "energy", "mean power", "provenance"),
            energy,
            label="Energy by source",
            numbers=(1, 2),
        )
        content += '<p class="quiet">Sources may overlap, so they are not added up.</p>'
    else:
        content = '<p class="quiet">No meter of energy or power was available; see the meters.</p>'
    if counters:
        content += render_details(
            f"Other amounts over {summary.covered}",
            render_table(
                ("counter", "amount", "provenance"), counters, label="Counters", numbers=(1,)
            ),
        )
    return f"<section><h3>Energy over {summary.covered}</h3>{content}</section>"
