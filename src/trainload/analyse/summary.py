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
from trainload.analyse.energy import EnergySummary, summarise_energy
from trainload.analyse.epochs import EpochScore, best_epoch, final_epoch
from trainload.analyse.findings import find_warnings
from trainload.analyse.series import Span, time_breaks, training_span
from trainload.analyse.step_time import StepTime, count_examples, summarise_step_time
from trainload.analyse.warmup import WarmUp, find_warmup
from trainload.record import Manifest, Run

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, kw_only=True)
class SampleCounts:
    """How well the samples cover the run."""

    total: int
    in_training: int
    gaps: int
    """Stretches of training without samples, pauses of the overhead measurement left out."""
    gaps_s: float
    """Their total length."""


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
    warmup: WarmUp
    step_time: StepTime
    examples_per_s: float | None
    """After warm-up, over step time alone."""
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
    """Highest resident memory of the run's own processes, over the whole run."""
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
        warmup=warmup,
        step_time=step_time,
        examples_per_s=_examples_per_s(manifest, steps, warmup, step_time),
        input_wait_s=_sum_known(epochs, "input_wait_s"),
        final=final_epoch(epochs),
        best=best_epoch(epochs),
        columns=states,
        counters=amounts,
        energy=summarise_energy(ordered, amounts, quantities, span),
        peak_rss_bytes=_largest(samples, "run_rss_bytes"),
        samples=_count_samples(samples, inside, manifest),
        warnings=find_warnings(manifest, steps, inside, amounts),
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
    heard = [_largest(steps, "end_s"), _largest(samples, "t_s")]
    return max((t for t in heard if t is not None), default=None)


def _examples_per_s(
    manifest: Manifest, steps: pl.DataFrame, warmup: WarmUp, step_time: StepTime
) -> float | None:
    batch = manifest.batch_size
    if batch is None or step_time.total_s <= 0:
        return None
    examples = batch * step_time.steps
    rows, per_epoch = manifest.data.train_rows, manifest.data.steps_per_epoch
    if rows is not None and per_epoch is not None and per_epoch > 0:
        examples = count_examples(steps, warmup.steps, batch, rows, per_epoch)
    return examples / step_time.total_s


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


def _largest(frame: pl.DataFrame, column: str) -> float | None:
    value = frame[column].max() if column in frame.columns else None
    return float(value) if isinstance(value, int | float) else None
