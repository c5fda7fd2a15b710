"""Tries suggestions: a short study of the default against each other way; `analyse` judges it.

One cell for the default and one for each other way, in shuffled blocks, until the time is over.
Prints nothing; what was measured before an interruption stays and is judged.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from trainload.api.analysing import collect_study
from trainload.api.recommending.levels import choose_metric, compare_levels
from trainload.api.recommending.trial_work import TrialWork, offered
from trainload.api.running import run
from trainload.api.studying import run_study
from trainload.errors import UsageError
from trainload.recommend.here import (
    Suggestion,
    Trial,
    Tried,
    judge_trial,
    not_measured,
)
from trainload.run import RunProgress, render_progress
from trainload.study.file import parse_study
from trainload.study.keys import run_keywords
from trainload.units import render_seconds

if TYPE_CHECKING:
    from trainload.analyse.study import TidyStudy

OUT = "studies"
PILOT_STEPS = 10
WANTED, FEWEST, MOST = 5, 2, 12
"""Repetitions of each cell that runs are made short for, and between which it stays."""
NEEDED = 3
"""Repetitions below which another trial is left out."""
SHORTEST_S, LONGEST_S = 1.0, 20.0
"""Of the training in one run."""
PILOT_S = 10.0
"""For which that run is waited at least."""
_PILOT_SHARE = 0.25
"""Of the time, for one run that tells how long a step takes."""
_ORDER = ("threads", "precision", "batch_size", "loader", "huge_pages", "allocator", "setting")
"""Of the factors: fewer cores come with fewer threads, so their level is set last."""

Show = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class TrialStudy:
    """What a trial measured, and where it stands."""

    suggestions: tuple[Suggestion, ...]
    path: Path | None
    """The study's folder; None where no run was begun."""
    interrupted: bool
    runs: int
    notes: tuple[str, ...]


def try_suggestions(
    work: TrialWork,
    suggestions: Sequence[Suggestion],
    *,
    minutes: float,
    out: str | Path = OUT,
    show: Show | None = None,
) -> TrialStudy:
    """Measure the default against each suggestion that can be tried, within about these minutes.

    UsageError for minutes that cannot be meant.
    """
    if not 0 < minutes <= 24 * 60:
        raise UsageError(f"--minutes {minutes:g}: a number above 0, of at most a day")
    checked = [replace(one, not_tried=offered(one, work)) for one in suggestions]
    trials = [one.trial for one in checked if one.trial is not None and one.not_tried is None]
    trials.sort(key=lambda one: _ORDER.index(one.factor))
    if not trials:
        note = "nothing was tried: no suggestion can be set from outside"
        return TrialStudy(
            suggestions=tuple(checked), path=None, interrupted=False, runs=0, notes=(note,)
        )
    began_s, limit_s = time.monotonic(), 60 * minutes
    title = Path(str(work.keys.get("model") or work.keys["script"])).stem
    name = f"recommend-{title}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    folder = Path(out) / name
    pilot = _pilot(work, trials, folder, _PILOT_SHARE * limit_s, show)
    if isinstance(pilot, str):
        told = [_told(one, not_measured(pilot)) for one in checked]
        return TrialStudy(
            suggestions=tuple(told),
            path=folder,
            interrupted=pilot == _INTERRUPTED,
            runs=0,
            notes=(f"nothing was compared: {pilot}",),
        )
    left_s = max(1.0, limit_s - (time.monotonic() - began_s))
    trials = _affordable(trials, pilot, left_s)
    checked = [_left_out(one, trials) for one in checked]
    text = _study_text(name, work, trials, pilot, left_s)
    done = run_study(parse_study(text, f"{name}.yaml"), out=out, show=show)
    found = collect_study(folder)
    told = [
        one if one.trial is None or one.not_tried else _told(one, _judge(one.trial, found))
        for one in checked
    ]
    notes = [f"{done.status.done} runs, one at a time and in shuffled order: {folder}"]
    if done.status.disturbed:
        notes.append(
            f"{done.status.disturbed} of them ran beside other programs that took over a quarter "
            "of the machine: ranges are wider than on a quiet one"
        )
    return TrialStudy(
        suggestions=tuple(told),
        path=folder,
        interrupted=done.result.ended_by == "interrupted",
        runs=done.status.done,
        notes=tuple(notes),
    )


@dataclass(frozen=True, kw_only=True)
class _Pilot:
    """How long one run takes: before its steps, and each of them."""

    start_s: float
    step_s: float


_INTERRUPTED = "interrupted before the first comparison"


def _pilot(
    work: TrialWork, trials: Sequence[Trial], folder: Path, limit_s: float, show: Show | None
) -> _Pilot | str:
    """One run as it is by default; why there is none where it did not end well."""
    values = work.workload(PILOT_STEPS)
    for trial in trials:
        values |= {key: one for key, one in trial.base.sets.items() if key in _RUN_SETS}

    def tell(progress: RunProgress) -> None:
        if show is not None:
            show(f"how long a run takes · {render_progress(progress, 300).strip()}")

    if show is not None:
        show("how long a run takes")
    done = run(
        **run_keywords(values),
        out=folder / "pilot",
        timeout_s=max(limit_s, PILOT_S),
        show=None if show is None else tell,
    )
    if done.outcome == "interrupted":
        return _INTERRUPTED
    if done.outcome == "timed_out":
        shorter = "" if work.has_length else ", or arguments that make the script short"
        waited = render_seconds(max(limit_s, PILOT_S))
        return f"one run takes longer than {waited}: give more minutes{shorter}"
    if done.outcome != "completed":
        return f"its first run ended as {done.outcome}: {done.path}"
    summary = done.summary
    whole_s = summary.duration_s or 0.0
    step_s = summary.step_time.median_s if work.has_length else None
    if step_s is None:
        return _Pilot(start_s=whole_s, step_s=0.0)
    return _Pilot(start_s=max(whole_s - PILOT_STEPS * step_s, 0.0), step_s=max(step_s, 1e-6))


_RUN_SETS = ("threads", "setting")
"""Keys of a base that every kind of run takes."""


def _affordable(trials: Sequence[Trial], pilot: _Pilot, left_s: float) -> list[Trial]:
    """As many as the time is enough for, changes before what stays as it is; one at least."""
    run_s = pilot.start_s + max(SHORTEST_S if pilot.step_s else 0.0, PILOT_STEPS * pilot.step_s)
    cells = int(left_s / (NEEDED * max(run_s, 0.1)))
    first = sorted(trials, key=lambda one: one.keeps)[: max(1, cells - 1)]
    return [one for one in trials if one in first]


def _left_out(suggestion: Suggestion, trials: Sequence[Trial]) -> Suggestion:
    """The suggestion, with the reason where the time is not enough for its trial."""
    if suggestion.trial is None or suggestion.not_tried or suggestion.trial in trials:
        return suggestion
    return replace(suggestion, not_tried="the minutes are too few for it")


def _study_text(
    name: str, work: TrialWork, trials: Sequence[Trial], pilot: _Pilot, left_s: float
) -> str:
    """The study's file: one at a time around the default, as often as the time allows."""
    cells = 1 + len(trials)
    run_s, steps = pilot.start_s, PILOT_STEPS
    if pilot.step_s:
        training_s = left_s / (cells * WANTED) - pilot.start_s
        training_s = min(max(training_s, SHORTEST_S), LONGEST_S)
        steps = max(PILOT_STEPS, math.ceil(training_s / pilot.step_s))
        run_s += steps * pilot.step_s
    repetitions = min(max(int(left_s / (cells * max(run_s, 0.1))), FEWEST), MOST)
    keys: dict[str, Any] = {
        "name": name,
        "description": "The default of this machine against each suggestion",
        "workload": work.workload(steps, [trial.factor for trial in trials]),
        "factors": {
            trial.factor: [
                {"level": level.label, **level.sets} for level in (trial.base, trial.other)
            ]
            for trial in trials
        },
        "base": {trial.factor: trial.base.label for trial in trials},
        "design": "one-at-a-time",
        "repetitions": repetitions,
        "retries": 0,
        "untrusted_repeats": 0,
        "other_load": False,
        "cool_down": {"limit_s": 1},
        "absent": "skip",
        "limits": {"time_s": round(left_s, 1)},
    }
    keys["workload"]["timeout_s"] = round(max(30.0, 8 * run_s), 1)
    return str(yaml.safe_dump(keys, sort_keys=False, allow_unicode=True))


def _told(suggestion: Suggestion, tried: Tried) -> Suggestion:
    if suggestion.trial is None or suggestion.not_tried:
        return suggestion
    return replace(suggestion, tried=tried)


def _judge(trial: Trial, found: TidyStudy) -> Tried:
    counted = found.counted
    runs = counted.filter(counted[trial.factor] == trial.other.label).height
    metric = choose_metric(found)
    if metric is None or not runs:
        return not_measured(_why_missing(trial, found), runs)
    difference = compare_levels(found, trial, metric)
    if difference is None:
        return not_measured("too few runs of both ways count; give more minutes", runs)
    return judge_trial(trial, difference)


def _why_missing(trial: Trial, found: TidyStudy) -> str:
    missing = found.missing
    rows = missing.filter(missing[trial.factor] == trial.other.label)
    reason = rows["reason"][0] if rows.height else None
    if reason is None or reason == "never measured":
        return "the time was over before it was measured; give more minutes"
    return f"no run of it counts: {reason}"
