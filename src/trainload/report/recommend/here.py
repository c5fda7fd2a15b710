"""Suggestions for this machine as text, and the words that its page shares; computes nothing."""

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


TITLES = ("what", "suggestion", "set by", "saves", "rests on")
TRIED_TITLES = ("what", "tried", "verdict", "saves", "range", "runs", "why")
SAVES = "saves: share of the time, at most where it is not measured"
RANGES = "range: holds the truth in 19 of 20 cases, all ranges together"


def render_here(done: AdviceLike) -> str:
    """What is trained and where, a row for each thing that can be set, and what a trial said."""
    lines = [render_here_head(done), "", render_columns(TITLES, suggestion_rows(done), {3})]
    tried = tried_rows(done)
    if tried:
        lines += ["", "measured here", render_columns(TRIED_TITLES, tried, {3, 4, 5})]
        left = [f"  {topic} was not tried: {why}" for topic, why in untried_rows(done)]
        lines += ["", *left] if left else []
    lines += ["", *(f"  {clean_text(note)}" for note in done.notes)] if done.notes else []
    return "\n".join([*lines, "", SAVES, *([RANGES] if tried else [])])


def render_here_head(done: AdviceLike) -> str:
    """What is trained, and where."""
    batch = "" if done.batch_size is None else f", batch {done.batch_size:,}"
    return clean_text(f"{done.title}{batch}, on this machine: {done.machine}")


def suggestion_rows(done: AdviceLike) -> list[tuple[str, ...]]:
    """One row a suggestion, under `TITLES`."""
    return [
        (
            one.topic,
            clean_text(one.advice),
            one.option or "",
            _gain(one.gain),
            clean_text(one.basis),
        )
        for one in done.suggestions
    ]


def tried_rows(done: AdviceLike) -> list[tuple[str, ...]]:
    """One row for each suggestion that was tried, under `TRIED_TITLES`."""
    rows: list[tuple[str, ...]] = []
    for one in done.suggestions:
        trial, tried = one.trial, one.tried
        if trial is None or tried is None:
            continue
        ways = (trial.base.label, trial.other.label)
        kept, beside = ways if trial.keeps else ways[::-1]
        ends = (
            ""
            if tried.low is None or tried.high is None
            else f"{_signed(tried.low)} … {_signed(tried.high)}"
        )
        rows.append(
            (
                one.topic,
                f"{kept} against {beside}",
                tried.verdict,
                "not known" if tried.gain is None else _signed(tried.gain),
                ends,
                str(tried.runs),
                clean_text(tried.reason),
            )
        )
    return rows


def untried_rows(done: AdviceLike) -> list[tuple[str, str]]:
    """Topic and reason of each suggestion that no trial can tell of."""
    return [
        (one.topic, clean_text(one.not_tried or "nothing else can be set"))
        for one in done.suggestions
        if one.tried is None
    ]


def _gain(gain: float | None) -> str:
    if gain is None:
        return "not known"
    if gain < 0:
        return f"costs {render_percent(-gain, 0)}"
    return "nothing" if gain < 0.005 else f"up to {render_percent(gain, 0)}"


def _signed(share: float) -> str:
    return f"{share * 100:+.1f} %".replace("-", "−")
