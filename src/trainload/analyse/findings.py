"""Warnings about a run (losses that are no numbers, throttling, quotas …), one sentence each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from trainload.analyse.columns import CounterSummary
from trainload.analyse.peaks import largest
from trainload.hardware.throttling import THROTTLE_REASONS
from trainload.record import Manifest, RecordedSetting, SamplerUse
from trainload.units import render_percent, render_seconds
from trainload.workload import RecordedScript, RecordedWatch
from trainload_worker.protocol.events import DataReady

if TYPE_CHECKING:
    import polars as pl

MISSED_FRACTION = 0.01
CLOCK_CHANGE_S = 1.0
MOST_NAMES = 3
"""Names listed in one warning; of more, their number tells."""

_WATCH = (
    "put `with trainload.watch(...) as watched:` around the loop and call watched.step(loss) in it"
)
NO_STEPS = (
    "no step was seen: in the program's own process no optimizer of torch stepped twice, no "
    f"backward pass was seen and no fit of Keras; to tell its steps, {_WATCH}"
)
"""Of a program that ended well without a step."""
NO_STEPS_OUTSIDE = (
    "no step was seen: the script started processes of its own, and steps that run in them are not "
    "seen; let `trainload run --processes N` start them, which it does as torchrun would, or "
    f"{_WATCH}"
)
"""Of a script that may have trained in its child processes."""


def told_without_steps(warnings: Iterable[str]) -> str | None:
    """The warning that a program ended well without a step; None where there is none."""
    return next((found for found in warnings if found in (NO_STEPS, NO_STEPS_OUTSIDE)), None)


def find_warnings(
    manifest: Manifest,
    steps: pl.DataFrame,
    samples: pl.DataFrame,
    counters: Mapping[str, CounterSummary],
) -> tuple[str, ...]:
    """Every warning, most weighty first; `samples` and `counters` cover the training phase."""
    found = [
        *_outcome(manifest),
        *_probe(manifest, steps, samples),
        *(_losses(steps) if tells_losses(manifest) else ()),
        *_validation(manifest.data),
        *_setting(manifest.setting, scripted=isinstance(manifest.workload, RecordedScript)),
        *_throttling(samples),
        *_quota(counters),
        *_sampler(manifest.sampler),
        *_record(manifest),
        *manifest.warnings,
    ]
    return tuple(dict.fromkeys(found))


def _outcome(manifest: Manifest) -> Iterator[str]:
    if manifest.outcome is None:
        yield "the run still goes on: every figure is of the part so far"
    elif manifest.outcome != "completed" and manifest.training_completed:
        yield (
            "the training finished, but the run counts as "
            f"{manifest.outcome.replace('_', ' ')}: the record is not whole"
        )
    elif manifest.outcome != "completed":
        yield (
            f"the run ended as {manifest.outcome.replace('_', ' ')}: "
            "every figure is of the part before that"
        )


def _probe(manifest: Manifest, steps: pl.DataFrame, samples: pl.DataFrame) -> Iterator[str]:
    failure = manifest.model.probe_failure
    if failure:
        yield f"the probe was switched off, the steps after it are missing: {failure}"
    elif manifest.outcome == "completed" and steps.is_empty() and not tells_losses(manifest):
        if manifest.imported is None:
            yield NO_STEPS_OUTSIDE if _has_children(manifest, samples) else NO_STEPS
    elif manifest.model.step_marks == "backward":
        yield (
            "no optimizer of torch stepped: each backward pass counts as a step, which holds the "
            "update before it"
        )
    yield from manifest.model.probe_notes
    layers = manifest.layers
    if layers is not None and layers.failure:
        yield f"tracing of layers ended early: {layers.failure}"
    elif (
        layers is not None
        and layers.windows == 0
        and manifest.outcome is not None
        and not steps.is_empty()
    ):
        yield (
            "no layers: the training ended before a traced step was whole; "
            "tracing begins after some ten steps"
        )


def _has_children(manifest: Manifest, samples: pl.DataFrame) -> bool:
    """Whether a script that was started as one process had others beside it."""
    alone = isinstance(manifest.workload, RecordedScript) and (manifest.processes or 1) == 1
    return alone and (largest(samples, "run_processes_count") or 0) > 1


def tells_losses(manifest: Manifest) -> bool:
    """Whether a missing loss means one that was no number; a script's is simply not seen."""
    return not isinstance(manifest.workload, RecordedScript | RecordedWatch)


def _losses(steps: pl.DataFrame) -> Iterator[str]:
    bad = steps.filter(steps["loss"].is_null())["step"].sort().to_list()
    if bad:
        yield (
            f"the loss was not finite in {len(bad)} of {steps.height} steps, "
            f"first in step {bad[0]} (steps count from 0)"
        )


def _validation(data: DataReady) -> Iterator[str]:
    empty = [name for name, count in (data.validation_class_counts or {}).items() if count == 0]
    if len(empty) == 1:
        yield f"validation has no rows of class '{empty[0]}': its scores say nothing of it"
    elif empty:
        names = ", ".join(f"'{name}'" for name in empty[:MOST_NAMES])
        more = ", …" if len(empty) > MOST_NAMES else ""
        yield (
            f"validation has no rows of {len(empty)} classes ({names}{more}): "
            "its scores say nothing of them"
        )


def _setting(setting: RecordedSetting, *, scripted: bool) -> Iterator[str]:
    resolved, obtained = setting.resolved, setting.obtained
    if resolved is None or obtained is None:
        return
    # A script chooses its threads itself where nobody asked for a number.
    chosen = scripted and setting.asked.threads is None
    pairs: tuple[tuple[str, Any, Any], ...] = (
        ("cores", resolved.cores, obtained.cores),
        ("threads", resolved.threads, resolved.threads if chosen else obtained.threads),
    )
    for key, wanted, got in pairs:
        if got is not None and wanted != got:
            yield (
                f"the setting asked for {key} {_listed(wanted)}, the worker obtained {_listed(got)}"
            )
    asked, given = len(resolved.accelerators), obtained.accelerators
    if given is None:
        pass  # a script takes them when it likes
    elif asked != len(given):
        yield f"the setting asked for {asked} accelerators, the worker obtained {len(given)}"
    elif asked and obtained.device == "cpu":
        yield "the setting asked for an accelerator, the worker trained on the CPU"
    yield from (f"setting: {note}" for note in obtained.notes)


def _throttling(samples: pl.DataFrame) -> Iterator[str]:
    import polars as pl

    for column in samples.columns:
        if not column.endswith("_throttle_bits"):
            continue
        bits = samples[column].drop_nulls().cast(pl.Int64, strict=False).drop_nulls()
        told = {name: int(((bits & bit) != 0).sum()) for bit, name in THROTTLE_REASONS.items()}
        seen = [
            f"{name} in {render_percent(count / len(bits))} of samples"
            for name, count in told.items()
            if count
        ]
        if seen:
            yield f"{column.removesuffix('_throttle_bits')} was throttled: {', '.join(seen)}"


def _quota(counters: Mapping[str, CounterSummary]) -> Iterator[str]:
    held = counters.get("cgroup_cpu_throttled_s")
    if held is not None and held.amount:
        yield f"the control group's CPU quota held the run back for {render_seconds(held.amount)}"


def _sampler(sampler: SamplerUse) -> Iterator[str]:
    missed, taken = sampler.missed or 0, sampler.samples or 0
    if missed > MISSED_FRACTION * (missed + taken):
        yield f"{missed} of {missed + taken} samples were missed: the sampler got too little time"
    if sampler.restarts:
        yield f"the sampler was restarted {sampler.restarts} times: samples are missing in between"
    if sampler.lost_lines:
        yield f"{sampler.lost_lines} samples could not be written, as on a full disk"
    for name, count in sampler.meter_errors.items():
        if count:
            yield f"the meter {name} failed {count} times: those readings are missing"


def _record(manifest: Manifest) -> Iterator[str]:
    yield from manifest.notes
    if manifest.damaged_lines:
        yield f"{manifest.damaged_lines} lines of the record were damaged and left out"
    clock = manifest.clock
    if clock is None or None in (clock.end_s, clock.end_wall_s, clock.start_wall_s):
        return
    assert clock.end_s is not None and clock.end_wall_s is not None
    assert clock.start_wall_s is not None
    shift_s = (clock.end_wall_s - clock.start_wall_s) - (clock.end_s - clock.start_s)
    if abs(shift_s) > CLOCK_CHANGE_S:
        yield (
            f"the wall clock moved by {render_seconds(shift_s)} during the run; "
            "durations use the monotonic clock and hold"
        )


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
