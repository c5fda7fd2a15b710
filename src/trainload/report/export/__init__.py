"""Tables and plots as files for papers and other programs: text and images, no page."""

from trainload.report.export.images import IMAGE_KINDS, save_image
from trainload.report.export.plots import Plot, cell_plots, run_plots
from trainload.report.export.tables import TABLE_KINDS, render_latex, render_markdown, table_bytes

__all__ = [
    "IMAGE_KINDS",
    "TABLE_KINDS",
    "Plot",
    "cell_plots",
    "render_latex",
    "render_markdown",
    "run_plots",
    "save_image",
    "table_bytes",
]
