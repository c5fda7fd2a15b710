"""The sections of one run in the HTML report, in their order; each stands in its own file."""

from collections.abc import Callable

from trainload.report.layers.html import render_layers_section
from trainload.report.run.curves import render_loads, render_training
from trainload.report.run.details import render_details_section
from trainload.report.run.energy import render_energy_section
from trainload.report.run.overview import render_cards, render_head, render_log_tail
from trainload.report.run.view import RunView

SECTIONS: tuple[Callable[[RunView], str], ...] = (
    render_head,
    render_cards,
    render_log_tail,
    render_layers_section,
    render_training,
    render_loads,
    render_energy_section,
    render_details_section,
)
"""Each gives its HTML, or nothing where the run has nothing for it."""


def render_run(view: RunView) -> str:
    """All sections of one run."""
    opening = f'<article id="{view.anchor}" aria-labelledby="{view.anchor}-title">'
    return "\n".join((opening, *(section(view) for section in SECTIONS), "</article>"))
