"""Reports of runs: the terminal and one self-contained HTML file; draws, never computes.

Reads summaries and curves from `analyse`; rich and plotly are imported when something is drawn.
"""

from trainload.report.layers.terminal import render_layers
from trainload.report.layers.trace import save_trace
from trainload.report.layers.values import layers_json
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
    "render_outcome",
    "render_overhead",
    "render_summary",
    "save_trace",
]
