"""What a measured difference says of a suggestion: confirmed, withdrawn or not decided; pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trainload.recommend.here.facts import Suggestion, Trial, Tried, Verdict
from trainload.units import render_percent

LEAST_GAIN = 0.02
"""Share of the time below which a gain is not worth a change."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The other way's rate over the base's, minus one, with the interval of its verdict."""

    rate: float
    low: float
    high: float
    shown: bool
    """Whether a difference is shown at all."""
    runs: int


def judge_trial(trial: Trial, found: Difference) -> Tried:
    """The verdict on a suggestion that was tried.

    Confirmed is one that saves time for certain, or one that keeps the base where the other way
    saves less than 2 % for certain; withdrawn one of which the opposite holds.
    """
    gain, low, high = _gains(trial, found)
    verdict: Verdict
    if found.shown:
        verdict = "confirmed" if gain > 0 else "withdrawn"
        reason = _against(trial) if gain > 0 else _instead(trial, found)
    elif trial.keeps and low > -LEAST_GAIN:
        least = render_percent(LEAST_GAIN, 0)
        verdict, reason = "confirmed", f"{trial.other.label} saves less than {least}"
    elif not trial.keeps and high < LEAST_GAIN:
        verdict, reason = "withdrawn", f"it saves less than {render_percent(LEAST_GAIN, 0)}"
    else:
        verdict = "not decided"
        reason = f"no difference to {_beside(trial)} is shown; more minutes narrow the range"
    return Tried(verdict=verdict, gain=gain, low=low, high=high, runs=found.runs, reason=reason)


def not_measured(reason: str, runs: int = 0) -> Tried:
    """The verdict where too few runs count."""
    return Tried(verdict="not decided", gain=None, low=None, high=None, runs=runs, reason=reason)


def apply_past(suggestion: Suggestion, found: Difference, where: str) -> Suggestion:
    """The suggestion with the gain that past runs measured; as it was where they show none."""
    if suggestion.trial is None or not found.shown:
        return suggestion
    gain, low, high = _gains(suggestion.trial, found)
    said = f"{found.runs} runs in {where} against {_beside(suggestion.trial)}: {_ends(low, high)}"
    if gain <= 0:
        said = f"it costs {render_percent(-gain)}: {said}"
    # What is kept already saves nothing more, however much the other way would cost.
    kept = 0.0 if suggestion.trial.keeps and gain > 0 else gain
    return replace(suggestion, gain=kept, basis=said)


def _gains(trial: Trial, found: Difference) -> tuple[float, float, float]:
    """Share of the time that the suggestion saves, and its range."""
    if trial.keeps:
        return -found.rate, -found.high, -found.low
    gain, low, high = (
        1 - 1 / (1 + max(one, -0.999999)) for one in (found.rate, found.low, found.high)
    )
    return gain, low, high


def _beside(trial: Trial) -> str:
    return trial.other.label if trial.keeps else trial.base.label


def _against(trial: Trial) -> str:
    return f"against {_beside(trial)}"


def _instead(trial: Trial, found: Difference) -> str:
    if not trial.keeps:
        return f"{trial.base.label} is faster"
    saved = 1 - 1 / (1 + found.rate)
    return f"{trial.other.label} saves {render_percent(saved)}"


def _ends(low: float, high: float) -> str:
    return f"{render_percent(low)} to {render_percent(high)}"
