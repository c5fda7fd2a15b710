"""Plots as PNG or SVG files: plotly draws them in a browser that kaleido drives."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from trainload.errors import MissingPart
from trainload.report.export.plots import Plot

IMAGE_KINDS = ("png", "svg")
_BROWSERS = ("google-chrome", "chromium", "chromium-browser", "chrome")
_BROWSER = "BROWSER_PATH"
"""The variable by which kaleido is told of a browser."""
WIDTH_PX, HEIGHT_PX = 1000, 600


def save_image(plot: Plot, path: Path) -> None:
    """Write the plot, of the kind its name ends in; MissingPart without kaleido or a browser."""
    for library in ("plotly", "kaleido"):
        if importlib.util.find_spec(library) is None:
            raise MissingPart(
                f"images of plots need {library}, which is not installed; "
                "pip install 'trainload[plots]'"
            )
    import plotly.graph_objects as graph

    _name_browser()
    figure = graph.Figure(data=list(plot.traces), layout=dict(plot.layout))
    height = plot.layout.get("height", HEIGHT_PX)
    try:
        figure.write_image(path, width=WIDTH_PX, height=height, scale=2)
    except Exception as error:
        # kaleido has an error class for each way in which a browser can be absent or fail.
        said = " ".join(str(error).split())[:200]
        raise MissingPart(
            f"{path.name} was not drawn: {said or type(error).__name__}; images need Chrome or "
            f"Chromium, {_BROWSER} may name it"
        ) from error


def _name_browser() -> None:
    """Tell kaleido of a browser that it does not look for itself."""
    if os.environ.get(_BROWSER):
        return
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if found is not None:
        os.environ[_BROWSER] = found
