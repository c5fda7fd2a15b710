"""A run in figures: outcome, times, throughput, quality, loads, energy, and what to beware of.

Reads one run's frames; files are opened by the record alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from trainload.analyse.columns import (
    ColumnSummary,
    CounterSummary,
    is_counter,
    metered_columns,
    metered_quantities,
    summarise_columns,
)
from trainload.analyse.course import Course, summarise_course
from trainload.analyse.energy import EnergySummary, summarise_energy
from trainload.analyse.epochs import EpochScore, best_epoch, epoch_length_s, final_epoch
from trainload.analyse.findings import find_warnings
from trainload.analyse.peaks import RunPeaks, largest, run_peaks
from trainload.analyse.series import Span, time_breaks, training_span
from trainload.analyse.step_time import StepTime, summarise_step_time
from trainload.analyse.throughput import measure_throughput
from trainload.analyse.warmup import WarmUp, find_warmup
from trainload.record import Manifest, Run

if TYPE_CHECKING:
    import polars as pl

_AROUND = ("script", "train")
"""Phases that hold the training itself."""


@dataclass(frozen=True, kw_only=True)
class SampleCounts:
    """Number of samples in the run and in training, and the gaps between them."""

    total: int
    in_training: int
    gaps: int
    """Stretches of training without samples, pauses of the overhead measurement left out."""
    gaps_s: float
    """Their total length."""


@dataclass(frozen=True, kw_only=True)
class PhaseTime:
    """One kind of phase over the whole run: how often it came and how long it took in all."""

    name: str
    count: int
    total_s: float


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """One run in measured figures; what was not measured is None."""

    run_id: str
    outcome: str | None
    """None while the run goes on."""
    reason: str | None
    duration_s: float | None
    """From start to end; while the run goes on, to the last thing heard of it."""
    training_s: float
    """Sum of all steps, warm-up included, validation not."""
    training: Span | None
    """The training phase: first step's start to last step's end, validation included."""
    steps: int
    epochs: int
    epoch_s: float | None
    """Mean seconds of an epoch with its validation; None without a whole one."""
    warmup: WarmUp
    step_time: StepTime
    examples_per_s: float | None
    """Of the median step after warm-up, over all processes that train together."""
    tokens_per_s: float | None
    """As `examples_per_s`; None where the input is no tokens."""
    mean_examples_per_s: float | None
    """All examples over all step time after warm-up, with what a script does in between."""
    first_loss: float | None
    """Of the first step that tells one; in several processes that of the first."""
    last_loss: float | None
    phases: tuple[PhaseTime, ...]
    """What is no training, by name."""
    input_wait_s: float | None
    """How long the steps of whole epochs waited for their rows; None where nobody measured it."""
    final: EpochScore | None
    best: EpochScore | None
    covered: Literal["training", "the whole run"]
    """What `columns`, `counters` and `energy` cover: a run without a step has no training phase."""
    columns: Mapping[str, ColumnSummary]
    counters: Mapping[str, CounterSummary]
    energy: tuple[EnergySummary, ...]
    peak_rss_bytes: float | None
    """Highest sum of the resident sizes of the run's processes: shared pages count in each."""
    peaks: RunPeaks
    """The most memory it took, on the host and on GPUs."""
    course: Course | None
    """With the runs it continues; None where it continues none."""
    samples: SampleCounts
    warnings: tuple[str, ...]

    @property
    def covered_s(self) -> float | None:
        """Length of what `covered` names; None where nothing was heard of the run."""
        return self.duration_s if self.training is None else self.training.length_s

    def to_json(self) -> dict[str, Any]:
        """A JSON-able copy."""
        return {
            **asdict(self),
            "energy": [source.to_json() for source in self.energy],
            "warnings": list(self.warnings),
        }


def summarise_run(run: Run) -> RunSummary:
    """The summary of a run, whether it ended, failed early or still goes on."""
    manifest, steps, epochs, samples = run.manifest, run.steps, run.epochs, run.samples
    training = training_span(steps)
    span = training or _whole_span(manifest, samples)
    quantities = metered_quantities(manifest.meters)
    counters = [c for c in metered_columns(samples) if is_counter(c, quantities)]
    ordered = samples.drop_nulls("t_s").sort("t_s")
    inside = _within(ordered, span)
    states, amounts = summarise_columns(ordered, counters, span)
    warmup = find_warmup(steps)
    step_time = summarise_step_time(steps, warmup.steps)
    rates = measure_throughput(run, warmup.steps, step_time)
    losses = steps.sort("start_s")["loss"].drop_nulls()
    return RunSummary(
        run_id=manifest.run_id or run.path.name,
        outcome=manifest.outcome,
        reason=manifest.outcome_reason,
        duration_s=_duration_s(manifest, steps, samples),
        training_s=float(steps["step_s"].sum()),
        training=training,
        covered="training" if training is not None else "the whole run",
        steps=steps.height,
        epochs=epochs.height,
        epoch_s=epoch_length_s(epochs),
        warmup=warmup,
        step_time=step_time,
        examples_per_s=rates.examples_per_s,
        tokens_per_s=rates.tokens_per_s,
        mean_examples_per_s=rates.mean_examples_per_s,
        first_loss=None if losses.is_empty() else losses[0],
        last_loss=None if losses.is_empty() else losses[-1],
        phases=_phase_times(manifest),
        input_wait_s=_sum_known(epochs, "input_wait_s"),
        final=final_epoch(epochs),
        best=best_epoch(epochs),
        columns=states,
        counters=amounts,
        energy=summarise_energy(ordered, amounts, quantities, span),
        peak_rss_bytes=largest(samples, "run_rss_bytes"),
        peaks=run_peaks(manifest, samples),
        course=summarise_course(run),
        samples=_count_samples(samples, inside, manifest),
        warnings=(*find_warnings(manifest, steps, inside, amounts), *run.table_notes),
    )


def pauses_of(manifest: Manifest) -> tuple[Span, ...]:
    """The blocks in which the instrument paused to measure its own overhead."""
    blocks = manifest.overhead.blocks if manifest.overhead is not None else ()
    return tuple(Span(start_s=block.start_s, end_s=block.end_s) for block in blocks)


def _whole_span(manifest: Manifest, samples: pl.DataFrame) -> Span | None:
    end_s = _duration_s(manifest, samples.clear(), samples)
    return None if end_s is None else Span(start_s=0.0, end_s=end_s)


def _within(samples: pl.DataFrame, span: Span | None) -> pl.DataFrame:
    if span is None:
        return samples.clear()
    return samples.filter(samples["t_s"].is_between(span.start_s, span.end_s))


def _duration_s(manifest: Manifest, steps: pl.DataFrame, samples: pl.DataFrame) -> float | None:
    if manifest.clock is not None and manifest.clock.end_s is not None:
        return manifest.clock.end_s - manifest.clock.start_s
    heard = [largest(steps, "end_s"), largest(samples, "t_s")]
    return max((t for t in heard if t is not None), default=None)


def _phase_times(manifest: Manifest) -> tuple[PhaseTime, ...]:
    """Phases that have ended, in the order of their first; what holds the training is none."""
    told: dict[str, list[float]] = {}
    for phase in manifest.phases:
        if phase.end_s is not None and phase.name not in _AROUND:
            told.setdefault(phase.name, []).append(phase.end_s - phase.start_s)
    return tuple(
        PhaseTime(name=name, count=len(times), total_s=sum(times)) for name, times in told.items()
    )


def _count_samples(samples: pl.DataFrame, inside: pl.DataFrame, manifest: Manifest) -> SampleCounts:
    import polars as pl

    times = inside["t_s"]
    ends = times.filter(time_breaks(times))
    starts = times.filter(time_breaks(times).shift(-1, fill_value=False))
    gaps = pl.DataFrame({"start": starts, "end": ends})
    for pause in pauses_of(manifest):
        # A gap that a pause explains overlaps most of it.
        overlap = pl.min_horizontal("end", pl.lit(pause.end_s)) - pl.max_horizontal(
            "start", pl.lit(pause.start_s)
        )
        gaps = gaps.filter(overlap < 0.5 * (pl.col("end") - pl.col("start")))
    return SampleCounts(
        total=samples.height,
        in_training=inside.height,
        gaps=gaps.height,
        gaps_s=float((gaps["end"] - gaps["start"]).sum()),
    )


def _sum_known(frame: pl.DataFrame, column: str) -> float | None:
    known = frame[column].drop_nulls() if column in frame.columns else None
    return None if known is None or known.is_empty() else float(known.sum())
