"""Reports of runs: the terminal and one self-contained HTML file; draws, never computes.

Reads summaries and curves from `analyse`; rich and plotly are imported when something is drawn.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainload.report.layers.terminal import render_layers
    from trainload.report.layers.trace import save_trace
    from trainload.report.layers.values import layers_json
    from trainload.report.many.html import render_many
    from trainload.report.run.card import render_card
    from trainload.report.run.html import render_html
    from trainload.report.run.terminal import render_detect, render_summary
    from trainload.report.wording import clean_text, render_outcome, render_overhead

__all__ = [
    "clean_text",
    "layers_json",
    "render_card",
    "render_detect",
    "render_html",
    "render_layers",
    "render_many",
    "render_outcome",
    "render_overhead",
    "render_summary",
    "save_trace",
]

_PLACES = {
    "render_layers": "trainload.report.layers.terminal",
    "save_trace": "trainload.report.layers.trace",
    "layers_json": "trainload.report.layers.values",
    "render_many": "trainload.report.many.html",
    "render_card": "trainload.report.run.card",
    "render_html": "trainload.report.run.html",
    "render_detect": "trainload.report.run.terminal",
    "render_summary": "trainload.report.run.terminal",
    "clean_text": "trainload.report.wording",
    "render_outcome": "trainload.report.wording",
    "render_overhead": "trainload.report.wording",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is first used: what tells a step's counts reads no traces."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)
