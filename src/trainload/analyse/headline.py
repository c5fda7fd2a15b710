"""The headline figures of runs as a table: one row a run, the same columns for all.

Takes runs and summaries, gives frames; opens no file of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainload.analyse.summary import RunSummary
from trainload.record import Run
from trainload.workload import RecordedGraph

if TYPE_CHECKING:
    import polars as pl

_TEXTS = ("run_id", "model", "framework", "setting", "created", "outcome", "outcome_reason")
_COUNTS = ("batch_size", "steps", "epochs", "parameters", "warnings")
_FIGURES = (
    "duration_s",
    "training_s",
    "epoch_s",
    "step_s",
    "step_mean_s",
    "step_p5_s",
    "step_p95_s",
    "examples_per_s",
    "tokens_per_s",
    "mean_examples_per_s",
    "input_wait_s",
    "train_loss",
    "validation_loss",
    "validation_accuracy",
    "validation_f1_weighted",
    "validation_f1_macro",
    "validation_top5_accuracy",
    "best_accuracy",
    "energy_j",
    "mean_power_w",
    "run_cpu_load_fraction",
    "host_cpu_load_fraction",
    "gpu_load_fraction",
    "peak_host_bytes",
    "peak_rss_bytes",
    "peak_allocated_bytes",
    "peak_reserved_bytes",
    "peak_gpu_bytes",
    "overhead_ratio",
    "layers_cost_s",
)
COLUMNS = (*_TEXTS, "precision", "optimizer", *_COUNTS, *_FIGURES, "energy_source", "path")
"""In this order; `problem` follows, which says why a run could not be read."""


def headline_row(run: Run, summary: RunSummary) -> dict[str, Any]:
    """The figures of one run by column; what was not measured is None.

    `step_s` is the median after warm-up and `examples_per_s` the rate of such a step; `energy_j` is
    that of the source named beside it. `train_loss` is the last epoch's, of a script the last
    step's. `peak_host_bytes` counts shared pages once where that was read, `peak_rss_bytes` in each
    process; `peak_gpu_bytes` is what the run's processes held of a GPU.
    """
    manifest, step = run.manifest, summary.step_time
    resolved, overhead, layers = manifest.setting.resolved, manifest.overhead, manifest.layers
    workload = manifest.workload
    training = workload.training if isinstance(workload, RecordedGraph) else None
    last = summary.final.validation if summary.final is not None else {}
    best = summary.best.validation if summary.best is not None else {}
    energy = next((s for s in summary.energy if s.energy_j is not None), None)
    return {
        "run_id": summary.run_id,
        "model": manifest.model_name,
        "framework": manifest.framework,
        "setting": None if resolved is None else resolved.text,
        "created": manifest.created,
        "outcome": summary.outcome,
        "outcome_reason": summary.reason,
        "precision": None if training is None else training.precision,
        "optimizer": None if training is None else training.optimizer.name,
        "batch_size": manifest.batch_size,
        "steps": summary.steps,
        "epochs": summary.epochs,
        "parameters": manifest.model.parameters,
        "warnings": len(summary.warnings),
        "duration_s": summary.duration_s,
        "training_s": summary.training_s,
        "epoch_s": summary.epoch_s,
        "step_s": step.median_s,
        "step_mean_s": step.mean_s,
        "step_p5_s": step.p5_s,
        "step_p95_s": step.p95_s,
        "examples_per_s": summary.examples_per_s,
        "tokens_per_s": summary.tokens_per_s,
        "mean_examples_per_s": summary.mean_examples_per_s,
        "input_wait_s": summary.input_wait_s,
        "train_loss": summary.last_loss if summary.final is None else summary.final.train_loss,
        "validation_loss": last.get("loss"),
        "validation_accuracy": last.get("accuracy"),
        "validation_f1_weighted": last.get("f1_weighted"),
        "validation_f1_macro": last.get("f1_macro"),
        "validation_top5_accuracy": last.get("top5_accuracy"),
        "best_accuracy": best.get("accuracy"),
        "energy_j": None if energy is None else energy.energy_j,
        "mean_power_w": None if energy is None else energy.mean_power_w,
        "run_cpu_load_fraction": _mean(summary, "run_cpu_load_fraction"),
        "host_cpu_load_fraction": _mean(summary, "host_cpu_load_fraction"),
        "gpu_load_fraction": _mean(summary, "gpu0_load_fraction"),
        "peak_host_bytes": summary.peaks.host_bytes,
        "peak_rss_bytes": summary.peak_rss_bytes,
        "peak_allocated_bytes": manifest.memory.peak_allocated_bytes,
        "peak_reserved_bytes": manifest.memory.peak_reserved_bytes,
        "peak_gpu_bytes": summary.peaks.gpu_process_bytes,
        "overhead_ratio": None if overhead is None else overhead.ratio,
        "layers_cost_s": None if layers is None else layers.cost_s,
        "energy_source": None if energy is None else energy.source,
        "path": str(run.path),
    }


def headline_table(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows of `headline_row` as a frame with every column, whatever the rows lack."""
    import polars as pl

    kinds = {**dict.fromkeys(_COUNTS, pl.Int64), **dict.fromkeys(_FIGURES, pl.Float64)}
    schema = {name: kinds.get(name, pl.String) for name in (*COLUMNS, "problem")}
    whole = [{name: row.get(name) for name in schema} for row in rows]
    return pl.DataFrame(whole, schema=schema, orient="row", strict=False)


def _mean(summary: RunSummary, column: str) -> float | None:
    found = summary.columns.get(column)
    return None if found is None else found.mean
