"""`trainload estimate --measure`: a few real steps on this machine, kept as a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import trainload
from trainload.errors import UsageError
from trainload.estimate.memory.answer import MeasuredPeak

if TYPE_CHECKING:
    from trainload.api.estimating.sources import Source, StepChoice
    from trainload.run import RunRequest

STEPS = 6
_STEPS_OF_BUILD = (
    Path(trainload.__file__).resolve().parent.parent
    / "trainload_worker/frameworks/torch/steps_of_build.py"
)
"""Run as any script is; it never becomes part of this process."""
_PORTIONS = 5
"""Rows for so many steps, of which a fifth is for validation."""


def measure_steps(
    source: Source, choice: StepChoice, python: str, limit_s: float, out: Path, *, progress: bool
) -> MeasuredPeak:
    """Run a few steps, keep them as a run, and answer the peaks that its record holds."""
    from trainload.cli.run import ProgressLine
    from trainload.run import execute_run

    request = _request(source, choice, python, limit_s, out)
    result = execute_run(request, ProgressLine() if progress else None)
    found = result.manifest.memory
    start, peak = found.get("start_rss_bytes"), found.get("peak_rss_bytes")
    return MeasuredPeak(
        path=str(result.path),
        outcome=result.outcome if result.reason is None else f"{result.outcome}: {result.reason}",
        steps=STEPS if result.outcome == "completed" else None,
        allocated_bytes=found.get("peak_allocated_bytes"),
        reserved_bytes=found.get("peak_reserved_bytes"),
        rss_growth_bytes=None if start is None or peak is None else peak - start,
        rss_bytes=peak,
    )


def _request(
    source: Source, choice: StepChoice, python: str, limit_s: float, out: Path
) -> RunRequest:
    from trainload.api.estimating.sources import BuildSource, ScriptSource
    from trainload.run import prepare_request

    options: dict[str, Any] = {
        "out": out, "python": python, "timeout_s": limit_s, "check_overhead": False,
    }  # fmt: skip
    if isinstance(source, ScriptSource):
        return prepare_request(source.script.path, [], arguments=source.script.arguments, **options)
    rule = choice.optimizer
    if isinstance(source, BuildSource):
        path, _, name = source.text.rpartition(":")
        arguments = [
            str(Path(path).resolve()), name, str(choice.batch_size), choice.precision, rule.name,
            f"{rule.momentum:g}", str(STEPS),
        ]  # fmt: skip
        return prepare_request(str(_STEPS_OF_BUILD), [], arguments=arguments, **options)
    if source.model is None:
        raise UsageError(
            f"--measure runs built-in models, build functions and scripts, not the graph of "
            f"{source.title}"
        )
    words = [
        *source.words,
        "data=synthetic",
        f"rows={max(10, _PORTIONS * choice.batch_size)}",
        f"batch_size={choice.batch_size}",
        f"precision={choice.precision}",
        f"optimizer={rule.name}",
        f"momentum={rule.momentum:g}",
        f"max_steps={STEPS}",
        "epochs=2",
        "validate=never",
    ]
    return prepare_request(source.model, words, **options)
