"""Real steps on this machine that rescale predictions; asks `run` for them and prints nothing."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainload.api.estimating.sources import ModuleSource, ScriptSource, Source
from trainload.errors import UsageError, WorkloadError
from trainload.units import render_seconds

if TYPE_CHECKING:
    from trainload.api.predicting.devices import Here
    from trainload.api.predicting.result import Prediction
    from trainload.estimate.counts.answer import StepChoice

_BUSY = (
    "the machine was not free when steps were measured: {seen}; they may have taken longer than "
    "they do alone"
)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Steps that were run here, beside what was predicted of them."""

    here: Here
    predicted: Prediction
    """Of the device here, one of it, by the model alone."""
    seconds: tuple[float, ...]
    """Of each step after warm-up."""
    disturbed: tuple[str, ...] = ()
    """What else kept the machine busy when they began, a line each."""

    @property
    def median_s(self) -> float:
        """Of them."""
        return statistics.median(self.seconds)


def check_measurable(source: Source, precision: str) -> None:
    """UsageError where no steps of this can be run here."""
    if isinstance(source, ModuleSource):
        raise UsageError(
            f"the module {source.title} is in this process and is not run; put it into a function "
            "in a file, such as my.py:build, for --measure"
        )
    if precision == "tf32" and not isinstance(source, ScriptSource):
        raise UsageError("--measure runs float32, bf16 or fp16: no run sets TF32's switch")


def run_steps(
    source: Source,
    choice: StepChoice,
    *,
    steps: int,
    python: str,
    limit_s: float,
    out: str | os.PathLike[str],
    show: Callable[[str], None] | None,
) -> tuple[float, ...]:
    """Seconds of each step after warm-up; WorkloadError where the run came to none."""
    from trainload.api.estimating.measured import measure_steps
    from trainload.api.loading import load

    done = measure_steps(
        source, choice, steps=steps, python=python, limit_s=limit_s, out=out, show=show
    )
    run = load(Path(done.path))
    times = run.steps.sort("start_s")["step_s"].slice(run.summary.warmup.steps).drop_nulls()
    # A script goes on for as long as it does: what it did within the limit is enough.
    enough = run.outcome == "completed" or isinstance(source, ScriptSource)
    if times.is_empty() or not enough or run.outcome == "failed":
        raise WorkloadError(f"no step could be measured here ({done.outcome}); see {done.path}")
    return tuple(float(one) for one in times)


def apply_measured(done: Prediction, measured: Measured) -> Prediction:
    """The prediction by the steps that were measured; as it was where it has no time."""
    from trainload.predict.adjust import rescale, take_measured

    predicted = measured.predicted.step
    if done.step is None or predicted is None:
        return done
    warning = _BUSY.format(seen="; ".join(measured.disturbed)) if measured.disturbed else None
    took, said = render_seconds(measured.median_s), render_seconds(predicted.step_s.value)
    name, many = measured.here.device.name, len(measured.seconds)
    if done.device.name == name and done.count == 1:
        why = f"median of {many} steps that were run here; the model alone says {said}"
        step = take_measured(done.step, measured.seconds, why)
        return replace(done, step=step, warning=warning)
    factor = measured.median_s / predicted.step_s.value
    why = (
        f"rescaled by {factor:.3g}: {many} steps on {name} here took {took} where {said} is "
        f"predicted ({predicted.tier}); the range is of both devices"
    )
    alike = (done.device.kind == "CPU") == (measured.here.device.kind == "CPU")
    if not alike:
        why += ", and wider, as one is a processor and one is not"
    step = rescale(done.step, predicted, measured.median_s, why, alike=alike)
    return replace(done, step=step, warning=warning)
