"""Rules and a machine's figures drawn: on the terminal, and as one page."""

from trainload.report.rules.html import render_rules_html
from trainload.report.rules.terminal import render_limits, render_rules

__all__ = ["render_limits", "render_rules", "render_rules_html"]
