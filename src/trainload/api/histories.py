"""`trainload.history`: the runs of a folder by workload, in order of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainload.api.comparing import Place, find_runs, read_compared
from trainload.errors import UsageError
from trainload.record import load_manifest

if TYPE_CHECKING:
    from trainload.analyse.compare.history import DatedRun, History


def history(place: Place, *, metric: str = "step_s") -> list[History]:
    """One metric of each workload that a place holds, the one with most runs first.

    A workload is a model or script with its settings; its code and versions may change, and stand
    beside the change that they came with. UsageError where no run tells the metric.
    """
    from trainload.analyse.compare.cells import identity_of
    from trainload.analyse.compare.history import DatedRun, follow_metric

    _, found = find_runs(place)
    left_out = [f"{run.run} ({run.reason})" for _, run in found if run.reason is not None]
    by_workload: dict[str, list[DatedRun]] = {}
    for path, run in found:
        if run.reason is not None or run.figures is None:
            continue
        dated = DatedRun(
            created=load_manifest(path).created or "",
            run=read_compared(path, run.figures, layers=False),
        )
        by_workload.setdefault(identity_of(run.figures), []).append(dated)
    known = sorted(
        {n for runs in by_workload.values() for r in runs for n in r.run.figures.metrics}
    )
    if metric not in known:
        raise UsageError(f"no run of {place} tells {metric}; known: {', '.join(known) or 'none'}")
    titles = _titles(by_workload)
    histories = [
        follow_metric(titles[identity], metric, runs, left_out)
        for identity, runs in by_workload.items()
    ]
    return sorted((one for one in histories if one.points), key=lambda one: -len(one.points))


def _titles(by_workload: dict[str, list[DatedRun]]) -> dict[str, str]:
    """What tells the workloads of a folder apart; the model's name where there is one alone."""
    from trainload.analyse.study.tidy import level_text

    told = {key: runs[0].run.figures for key, runs in by_workload.items()}
    facts = {key: {**one.facts, **one.factors} for key, one in told.items()}
    names = dict.fromkeys(name for one in facts.values() for name in one)
    differing = [n for n in names if len({level_text(one.get(n)) for one in facts.values()}) > 1]
    return {
        key: " ".join(
            [level_text(one.get("model")), *(f"{n}={level_text(one.get(n))}" for n in differing)]
        )
        for key, one in facts.items()
    }
