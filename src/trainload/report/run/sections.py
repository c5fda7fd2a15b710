"""The sections of one run in the HTML report, in their order; each stands in its own file."""

from collections.abc import Callable
from importlib import import_module

from trainload.report.run.view import RunView

_SECTIONS = (
    "run.overview:render_head",
    "run.overview:render_cards",
    "run.overview:render_log_tail",
    "layers.html:render_layers_section",
    "run.curves:render_training",
    "run.curves:render_speed",
    "run.curves:render_loads",
    "run.energy:render_energy_section",
    "run.details:render_details_section",
)
"""File of this room and function in it: its HTML, or nothing where the run has nothing for it."""


def render_run(view: RunView) -> str:
    """All sections of one run."""
    opening = f'<article id="{view.anchor}" aria-labelledby="{view.anchor}-title">'
    return "\n".join((opening, *(_find(name)(view) for name in _SECTIONS), "</article>"))


def _find(name: str) -> Callable[[RunView], str]:
    file, _, function = name.partition(":")
    found: Callable[[RunView], str] = getattr(import_module(f"trainload.report.{file}"), function)
    return found
