"""A few real steps on this machine, kept as a run; asks `run` for them and prints nothing."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import trainload
from trainload.analyse.peaks import MeasuredSteps, measured_peak
from trainload.api.estimating.sources import BuildSource, GraphSource, ScriptSource, Source
from trainload.errors import UsageError

if TYPE_CHECKING:
    from trainload.estimate.counts.answer import StepChoice
    from trainload.workload import ScriptWorkload, Workload

STEPS = 6
STEPS_OF_BUILD = (
    Path(trainload.__file__).resolve().parent.parent
    / "trainload_worker/frameworks/torch/steps_of_build.py"
)
"""Run as any script is; it never becomes part of this process."""
_PORTIONS = 5
"""Rows for so many steps, of which a fifth is for validation."""


def measure_steps(
    source: Source,
    choice: StepChoice,
    *,
    python: str,
    limit_s: float,
    out: str | os.PathLike[str],
    show: Callable[[str], None] | None,
    steps: int = STEPS,
) -> MeasuredSteps:
    """Run a few steps, keep them as a run, and answer the peaks that its record holds."""
    from trainload.hardware import read_machine, resolve_setting
    from trainload.run import RunRequest, execute_run, show_as_text

    machine = read_machine()
    request = RunRequest(
        workload=_workload(source, choice, steps),
        machine=machine,
        setting=resolve_setting(None, None, machine),
        out=Path(out),
        python=python,
        timeout_s=limit_s,
        check_overhead=False,
    )
    result = execute_run(request, show_as_text(show))
    return MeasuredSteps(
        path=str(result.path),
        outcome=result.outcome if result.reason is None else f"{result.outcome}: {result.reason}",
        steps=steps if result.outcome == "completed" else None,
        peak=measured_peak(result.manifest),
    )


def _workload(source: Source, choice: StepChoice, steps: int) -> Workload | ScriptWorkload:
    from trainload.workload import script_workload

    rule = choice.optimizer
    if isinstance(source, ScriptSource):
        return source.script
    if isinstance(source, BuildSource):
        path, _, name = source.text.rpartition(":")
        arguments = [
            str(Path(path).resolve()), name, str(choice.examples), choice.precision, rule.name,
            f"{rule.momentum:g}", str(steps),
        ]  # fmt: skip
        return script_workload(str(STEPS_OF_BUILD), arguments)
    if not isinstance(source, GraphSource) or source.model is None:
        kind = "the graph of" if isinstance(source, GraphSource) else "the module"
        raise UsageError(
            f"--measure runs built-in models, build functions and scripts, not {kind} "
            f"{source.title}"
        )
    return source.step(
        choice,
        rows=max(10, _PORTIONS * choice.examples),
        max_steps=steps,
        # A fifth of the portions is for validation; rows come again in the next epoch.
        epochs=max(2, math.ceil(steps / (_PORTIONS - 1))),
        validate="never",
    )
