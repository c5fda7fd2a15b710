"""Summaries of whole runs: ended, failed, empty, still going on."""

import json
import subprocess
import sys
from dataclasses import replace

import polars as pl
import pytest

from trainload.analyse import (
    epoch_curves,
    find_warmup,
    loss_curve,
    sample_curves,
    summarise_run,
)
from trainload.analyse.columns import metered_columns
from trainload.analyse.epochs import best_epoch, final_epoch
from trainload.analyse.findings import NO_STEPS, find_warnings, told_without_steps
from trainload.record import DirectoryLock, open_run

RESOLVED = {"text": "cpu0-1", "cores": [0, 1], "threads": 2, "accelerators": []}
GPU = {"index": 0, "nvml_index": 0, "uuid": "GPU-1", "name": "x", "memory_bytes": 1, "driver": "1"}


def steps_of(count, step_s):
    starts = [n * step_s for n in range(count)]
    return pl.DataFrame({"start_s": starts}, schema={"start_s": pl.Float64})


@pytest.mark.parametrize(
    ("count", "step_s", "expected"),
    [
        (0, 1.0, 0),
        (1, 1.0, 0),
        (5, 1.0, 1),  # at least one
        (1000, 0.25, 10),  # 1 % is more than the 4 of the first second
        (1000, 0.0125, 80),  # the first second holds more
        (100, 0.001, 10),  # never over 10 %
    ],
)
def test_warm_up_follows_its_rule(count, step_s, expected):
    assert find_warmup(steps_of(count, step_s)).steps == expected


def test_a_completed_run(make_run):
    summary = summarise_run(open_run(make_run(gpu=True)))
    assert summary.outcome == "completed"
    assert summary.warnings == ()
    assert (summary.steps, summary.epochs) == (300, 3)
    # 300 steps of 0.05 s, the first ten times as long.
    assert summary.training_s == pytest.approx(15.45)
    assert summary.step_time.median_s == pytest.approx(0.05)
    assert summary.warmup.steps == 11
    assert summary.examples_per_s == pytest.approx(512 / 0.05)
    assert summary.best is not None
    assert summary.best.epoch == 2
    assert summary.energy[0].mean_power_w == pytest.approx(300)
    assert summary.training is not None
    assert summary.counters["run_cpu_s"].between_s == pytest.approx(summary.training.length_s)
    assert summary.counters["run_cpu_s"].amount == pytest.approx(1.5 * summary.training.length_s)
    assert json.loads(json.dumps(summary.to_json(), allow_nan=False))["steps"] == 300


def test_pauses_are_no_gaps_but_their_samples_are_missing(make_run):
    summary = summarise_run(open_run(make_run(pauses=3)))
    assert summary.samples.gaps == 0
    assert summary.samples.total < 170


@pytest.mark.parametrize(
    "options",
    [
        {"epochs": 0},
        {"samples": False},
        {"epochs": 0, "samples": False, "outcome": "out_of_memory"},
        {"nan_from_step": 0},
        {"steps_per_epoch": 1, "epochs": 1},
    ],
)
def test_a_run_that_left_little_is_summarised(make_run, options):
    run = open_run(make_run(**options))
    summary = summarise_run(run)
    assert json.loads(json.dumps(summary.to_json(), allow_nan=False))["run_id"] == run.path.name
    assert summary.steps == run.steps.height and summary.epochs == run.epochs.height
    sample_curves(run.samples, run.steps, metered_columns(run.samples))
    loss_curve(run.steps)
    epoch_curves(run.epochs, run.steps, ["validation_accuracy"])


def test_losses_that_were_not_seen_are_no_gaps(make_run):
    steps = open_run(make_run()).steps.with_row_index("at")
    steps = steps.with_columns(pl.when(pl.col("at") % 3 == 0).then("loss").alias("loss"))
    gaps, line = loss_curve(steps), loss_curve(steps, told=False)
    seen = steps.drop_nulls("loss")
    assert None in gaps.curves[0].raw and len(gaps.curves[0].raw) == steps.height
    assert line.curves[0].raw == seen["loss"].round_sig_figs(5).to_list()
    assert line.grids[0].iterations == (seen["step"] + 1.0).to_list()


def test_a_run_still_going_on(make_run):
    path = make_run(outcome=None)
    lock = DirectoryLock(path)
    assert lock.try_take()
    try:
        run = open_run(path, seal=False)
        assert run.running
        summary = summarise_run(run)
    finally:
        lock.free()
    assert summary.outcome is None
    assert summary.duration_s is not None
    assert "still goes on" in summary.warnings[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"damaged_lines": 3}, "3 lines of the record"),
        ({"warnings": ("own words",)}, "own words"),
        ({"sampler": {"samples": 90, "missed": 10}}, "10 of 100 samples were missed"),
        ({"sampler": {"restarts": 2}}, "restarted 2 times"),
        ({"sampler": {"meter_errors": {"nvml": 2}}}, "nvml failed 2 times"),
        (
            {"setting": {"resolved": {**RESOLVED, "threads": 4}, "obtained": {"threads": 2}}},
            "threads 4, the worker obtained 2",
        ),
        (
            {
                "setting": {
                    "resolved": {**RESOLVED, "accelerators": [GPU]},
                    "obtained": {"accelerators": [{}], "device": "cpu"},
                }
            },
            "trained on the CPU",
        ),
    ],
)
def test_what_deserves_a_warning_gets_one(make_run, changes, words):
    run = open_run(make_run(changes=changes), seal=False)
    assert any(words in warning for warning in summarise_run(run).warnings)


def test_a_script_that_had_children_is_told_how_their_steps_are_seen(make_run):
    run = open_run(make_run(script=True, epochs=0))
    for count, words in ((1.0, "in the program's own process"), (3.0, "--processes N")):
        samples = pl.DataFrame({"run_processes_count": [1.0, None, count]})
        (warning,) = find_warnings(run.manifest, run.steps, samples, {})
        assert words in warning and "trainload.watch" in warning
        assert told_without_steps([warning]) == warning
    started = replace(run.manifest, processes=2)
    assert find_warnings(started, run.steps, samples, {})[0] == NO_STEPS


def test_losses_that_are_not_finite_and_outcomes_are_warned_of(make_run):
    run = open_run(make_run(outcome="failed", reason="broke", nan_from_step=250))
    first, second = summarise_run(run).warnings
    assert "ended as failed" in first
    assert "50 of 300 steps, first in step 250 (steps count from 0)" in second


def test_a_finished_training_whose_run_was_killed_is_told_apart(make_run):
    changes = {"training_completed": True}
    run = open_run(make_run(outcome="killed", reason="gone", changes=changes), seal=False)
    (warning,) = summarise_run(run).warnings
    assert warning == (
        "the training finished, but the run counts as killed: the record is not whole"
    )


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, "validation has no rows of class 'EMPTY0': its scores say nothing of it"),
        (
            5,
            "validation has no rows of 5 classes ('EMPTY0', 'EMPTY1', 'EMPTY2', …): "
            "its scores say nothing of them",
        ),
    ],
)
def test_classes_without_validation_rows_are_told(make_run, count, expected):
    assert summarise_run(open_run(make_run(empty_classes=count))).warnings == (expected,)


def test_throughput_counts_the_batches_that_were_trained(make_run):
    # One epoch of ten batches, the last of one row: warm-up leaves out the first.
    whole = summarise_run(open_run(make_run(steps_per_epoch=10, epochs=1, last_rows=1)))
    assert whole.mean_examples_per_s == pytest.approx((8 * 512 + 1) / (9 * 0.05))
    # The headline is that of the median step, whose time stands beside it.
    assert whole.examples_per_s == pytest.approx(512 / whole.step_time.median_s)
    cut = summarise_run(open_run(make_run(steps_per_epoch=10, epochs=1, last_rows=1, max_steps=5)))
    assert cut.steps == 5
    assert cut.examples_per_s == pytest.approx(512 / 0.05)


def test_epochs_without_scores_have_no_best_one():
    epochs = pl.DataFrame(
        {"epoch": [0, 1], "validation_accuracy": [None, None], "validation_loss": [None, None]},
        schema_overrides={"validation_accuracy": pl.Float64, "validation_loss": pl.Float64},
    )
    assert best_epoch(epochs) is None
    assert final_epoch(epochs).validation == {"accuracy": None, "loss": None}


def test_throttling_is_told_with_its_reason_and_idle_is_none(make_run):
    run = open_run(make_run(gpu=True))
    idle = pl.DataFrame({"gpu0_throttle_bits": [1.0, 1.0]})
    capped = pl.DataFrame({"gpu0_throttle_bits": [4.0, 0.0, None]})
    assert find_warnings(run.manifest, run.steps, idle, {}) == ()
    assert find_warnings(run.manifest, run.steps, capped, {}) == (
        "gpu0 was throttled: power cap in 50.0 % of samples",
    )


def test_a_changed_wall_clock_is_told(make_run):
    run = open_run(make_run())
    clock = replace(run.manifest.clock, end_wall_s=run.manifest.clock.end_wall_s + 90)
    manifest = replace(run.manifest, clock=clock)
    (warning,) = find_warnings(manifest, run.steps, run.samples, {})
    assert "wall clock moved by 1 min 30 s" in warning


def test_curves_are_cut_and_broken_at_pauses(make_run):
    run = open_run(make_run(pauses=3))
    curves = sample_curves(run.samples, run.steps, metered_columns(run.samples), points=60)
    assert all(len(grid.times_s) <= 60 for grid in curves.grids)
    load = next(c for c in curves.curves if c.column == "host_cpu_load_fraction")
    assert load.raw.count(None) == 3
    assert load.averages[50].count(None) == 3
    slow = next(c for c in curves.curves if c.column == "run_pss_bytes")
    assert slow.grid != load.grid
    assert curves.grids[load.grid].iterations[0] is None


def test_importing_the_rooms_loads_no_heavy_library():
    code = (
        "import sys, trainload.analyse, trainload.report; "
        "print([m for m in ('polars', 'plotly', 'rich', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
