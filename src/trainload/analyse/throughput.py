"""How fast a run trained, in examples and tokens a second; reads tables of steps alone.

The headline is the rate of the median step after warm-up, so that it fits the headline step time;
the mean over all those steps, with whatever happened in between, is named so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainload.analyse.step_time import StepTime, count_examples
from trainload.analyse.warmup import find_warmup
from trainload.record import Manifest, Run

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """Rates after warm-up, summed over processes that train together; None where not known."""

    examples_per_s: float | None = None
    """Of the median step."""
    tokens_per_s: float | None = None
    """Of the median step."""
    mean_examples_per_s: float | None = None
    """All examples over the time of all steps; validation between two of a script's is in it."""
    mean_tokens_per_s: float | None = None


def measure_throughput(run: Run, warmup_steps: int, step_time: StepTime) -> Throughput:
    """The rates of a run: as its steps tell, else as its workload does."""
    manifest = run.manifest
    ranks = [run.steps, *(run.steps_of(rank) for rank in range(1, manifest.processes or 1))]
    counted = [_of_steps(steps) for steps in ranks if not steps.is_empty()]
    if any(rates.examples_per_s is not None for rates in counted):
        return Throughput(
            examples_per_s=_sum([r.examples_per_s for r in counted]),
            tokens_per_s=_sum([r.tokens_per_s for r in counted]),
            mean_examples_per_s=_sum([r.mean_examples_per_s for r in counted]),
            mean_tokens_per_s=_sum([r.mean_tokens_per_s for r in counted]),
        )
    return _of_workload(manifest, run.steps, warmup_steps, step_time)


def _of_steps(steps: pl.DataFrame) -> Throughput:
    warm = steps.sort("start_s").slice(find_warmup(steps).steps).filter(steps_timed())
    examples, tokens = _rates(warm, "examples"), _rates(warm, "tokens")
    return Throughput(
        examples_per_s=examples[0],
        mean_examples_per_s=examples[1],
        tokens_per_s=tokens[0],
        mean_tokens_per_s=tokens[1],
    )


def steps_timed() -> pl.Expr:
    """Steps whose time is known and not nothing."""
    import polars as pl

    return pl.col("step_s") > 0


def _rates(steps: pl.DataFrame, column: str) -> tuple[float | None, float | None]:
    """Median over the steps that tell their count, and all counts over all their time."""
    known = steps.drop_nulls(column)
    if known.is_empty():
        return None, None
    median = (known[column] / known["step_s"]).median()
    assert isinstance(median, float)
    return median, float(known[column].sum()) / float(known["step_s"].sum())


def _of_workload(
    manifest: Manifest, steps: pl.DataFrame, warmup_steps: int, step_time: StepTime
) -> Throughput:
    batch = manifest.batch_size
    if batch is None or not step_time.median_s or step_time.total_s <= 0:
        return Throughput()
    examples = batch * step_time.steps
    rows, per_epoch = manifest.data.train_rows, manifest.data.steps_per_epoch
    if rows is not None and per_epoch is not None and per_epoch > 0:
        examples = count_examples(steps, warmup_steps, batch, rows, per_epoch)
        batch = min(batch, rows)
    return Throughput(
        examples_per_s=batch / step_time.median_s,
        mean_examples_per_s=examples / step_time.total_s,
    )


def _sum(rates: Sequence[float | None]) -> float | None:
    """None where one of the processes does not tell its rate."""
    known = [rate for rate in rates if rate is not None]
    return sum(known) if len(known) == len(rates) and known else None
