"""A reproduction drawn: published beside measured, and a verdict for each claim."""

from trainload.report.reproduce.html import render_reproduction_html
from trainload.report.reproduce.terminal import render_reproduction

__all__ = ["render_reproduction", "render_reproduction_html"]
