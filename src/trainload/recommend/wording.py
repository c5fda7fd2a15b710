"""Figures of a recommendation in the words of its reasons; plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainload.units import render_seconds

if TYPE_CHECKING:
    from trainload.recommend.types import Objective, Plan


def hours_words(hours: float) -> str:
    """Hours as people read them."""
    return render_seconds(hours * 3600)


def number_words(value: float) -> str:
    """A number with three figures, thousands whole."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def usd_words(value: float) -> str:
    """Dollars; cents below a hundred."""
    if 0 < abs(value) < 0.01:
        return f"{value:.2g} USD"
    return f"{value:,.0f} USD" if abs(value) >= 100 else f"{value:.2f} USD"


def figure_words(plan: Plan, objective: Objective) -> str:
    """The figure that counts, with its unit; empty where it is not known."""
    found = plan.figure(objective)
    if found is None:
        return ""
    if objective == "time":
        return hours_words(found.value)
    return usd_words(found.value) if objective == "money" else f"{number_words(found.value)} kWh"
