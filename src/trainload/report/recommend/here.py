"""Suggestions for this machine as text; computes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from trainload.columns import render_columns
from trainload.report.wording import clean_text
from trainload.units import render_percent

if TYPE_CHECKING:
    from trainload.recommend.here import Suggestion

    class AdviceLike(Protocol):
        """What is drawn of the suggestions."""

        @property
        def title(self) -> str: ...
        @property
        def batch_size(self) -> int | None: ...
        @property
        def machine(self) -> str: ...
        @property
        def suggestions(self) -> tuple[Suggestion, ...]: ...
        @property
        def notes(self) -> tuple[str, ...]: ...


_TITLES = ("what", "suggestion", "set by", "saves", "rests on")


def render_here(done: AdviceLike) -> str:
    """What is trained and where, and a row for each thing that can be set."""
    batch = "" if done.batch_size is None else f", batch {done.batch_size:,}"
    rows = [
        (
            one.topic,
            clean_text(one.advice),
            one.option or "",
            _gain(one.gain),
            clean_text(one.basis),
        )
        for one in done.suggestions
    ]
    head = f"{done.title}{batch}, on this machine: {done.machine}"
    lines = [clean_text(head), "", render_columns(_TITLES, rows, {3})]
    lines += [f"  {clean_text(note)}" for note in done.notes]
    return "\n".join([*lines, "saves: share of the time; ? is not known before it is measured"])


def _gain(gain: float | None) -> str:
    if gain is None:
        return "?"
    return "nothing" if gain < 0.005 else f"up to {render_percent(gain, 0)}"
