"""Callbacks of other people's trainers, each with the real library where it is installed.

`make test-integrations` brings the libraries; an environment without one skips and says so.
"""

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import trainload

EXAMPLES = Path(__file__).parents[2] / "examples" / "integrations"
SOURCE = Path(trainload.__file__).parents[1]
REQUIRED = os.environ.get("TRAINLOAD_REQUIRES", "")
"""What an environment was made for: there it is an error that a library is missing."""

LIMIT_S = 280 if not REQUIRED else 1000
"""Below pytest's own, so that what a program printed is told; a busy machine takes its time."""


def needs(*libraries):
    wanted = [name for name in libraries if name not in REQUIRED]
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    reason = f"{', '.join(missing)} not installed; make test-integrations brings it"
    return pytest.mark.skipif(bool(missing), reason=reason)


def execute(words, cwd, status=0, **variables):
    """Run a program in a folder; what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    environment.update(TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="", **variables)
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def recorded(folder):
    """The only run below a folder."""
    (path,) = (folder / "runs").iterdir()
    return trainload.load(path)


def execute_both(name, cwd, changes=None, **variables):
    """Run an example with its one line and without it, where it must cost nothing; what it said."""
    text = (EXAMPLES / f"{name}.py").read_text()
    for line, instead in (changes or {}).items():
        assert line in text, line
        text = text.replace(line, instead)
    kept = [line for line in text.splitlines() if changes or "# this" not in line]
    (cwd / "plain.py").write_text("\n".join(kept))
    both = Path(__file__).with_name("with_and_without.py")
    return execute([both, cwd / "plain.py", EXAMPLES / f"{name}.py"], cwd, **variables)


def run_example(name, cwd, changes=None, **variables):
    execute_both(name, cwd, changes, **variables)
    run = recorded(cwd)
    assert run.outcome == "completed", run.manifest.outcome_reason
    assert not [text for text in run.summary.warnings if "probe" in text], run.summary.warnings
    check_told(run)
    return run


def check_told(run):
    """What a tracker of any trainer must show: steps with their times, losses and rows."""
    summary = run.summary
    assert summary.steps == run.steps.height > 20 and summary.step_time.median_s > 0
    assert run.steps["loss"].null_count() == 0 and summary.last_loss < summary.first_loss
    assert summary.examples_per_s > 0


@needs("torch", "lightning")
def test_a_lightning_callback_tells_steps_layers_epochs_and_validations(tmp_path):
    run = run_example("lightning_callback", tmp_path)
    assert run.steps.height == 63 and run.steps["examples"].unique().to_list() == [32]
    assert run.epochs["epoch"].to_list() == [0, 1] and run.epochs["steps"].to_list() == [32, 32]
    assert run.epochs["validation_accuracy"].max() > 0.5
    assert run.epochs["validation_s"].min() > 0 and run.epochs["validation_loss"].min() > 0
    assert run.epochs["train_loss"].null_count() == 0
    assert any("model.0" in str(layer) for layer in run.layers["layer"].unique())


@needs("torch", "lightning")
def test_a_lightning_profiler_reports_and_tells_what_rows_were_waited_for(tmp_path):
    said = execute([EXAMPLES / "lightning_callback.py", "--profiler"], tmp_path)
    run = recorded(tmp_path)
    assert run.outcome == "completed" and run.steps.height == 63
    assert 0 < run.summary.input_wait_s < run.summary.training_s
    assert "trainload: 63 steps" in said and "for rows" in said and str(run.path.name) in said


@needs("torch", "lightning")
def test_a_failing_lightning_training_is_recorded_as_failed_and_still_fails(tmp_path):
    broken = (EXAMPLES / "lightning_callback.py").read_text()
    broken = broken.replace("        return loss\n", "        return loss / int(_index < 20)\n", 1)
    (tmp_path / "broken.py").write_text(broken.replace("int(_index < 20)", "(1 // (20 - _index))"))
    said = execute([tmp_path / "broken.py"], tmp_path, status=1)
    assert "ZeroDivisionError" in said
    run = recorded(tmp_path)
    assert run.outcome == "failed" and "ZeroDivisionError" in run.manifest.outcome_reason


@needs("torch", "transformers", "accelerate")
def test_a_hugging_face_callback_tells_tokens_epochs_and_evaluations(tmp_path):
    run = run_example("hf_callback", tmp_path)
    assert run.steps.height == 31 and run.steps["tokens"].max() == 8 * 32
    assert run.epochs["steps"].to_list() == [16, 16]
    assert run.epochs["validation_loss"].null_count() == 0
    assert run.epochs["validation_s"].min() > 0
    assert run.manifest.workload.watched["per_device_train_batch_size"] == 8


@needs("torch", "transformers", "accelerate")
def test_a_trainer_that_dies_without_a_word_is_ended_with_its_error(tmp_path):
    dying = (EXAMPLES / "hf_callback.py").read_text()
    dying = dying.replace("row = (at", "row = (at // (1 if at != 100 else 0)")
    (tmp_path / "dying.py").write_text(dying)
    execute([tmp_path / "dying.py"], tmp_path, status=1)
    run = recorded(tmp_path)
    assert run.outcome == "failed" and "ZeroDivisionError" in run.manifest.outcome_reason


@needs("torch", "accelerate")
def test_an_accelerate_tracker_tells_steps_and_epochs(tmp_path):
    run = run_example(
        "accelerate_tracker", tmp_path,
        {
            '    tracker = TrainloadTracker("accelerate-example")\n': "",
            "log_with=tracker, ": "",
            '    accelerator.init_trackers("example", config={"lr": 1e-3})\n': "",
        },
    )  # fmt: skip
    assert run.steps.height == 63 and run.epochs.height == 2
    assert run.epochs["train_loss"].null_count() == 0
    assert run.manifest.workload.watched == {"lr": 1e-3}


@needs("tensorflow", "keras")
def test_a_keras_callback_tells_steps_rows_losses_and_epochs(tmp_path):
    run = run_example("keras_callback", tmp_path)
    check_keras(run, epochs=3, rows=1000, batch=64)
    assert run.manifest.framework == "tensorflow"


@needs("tensorflow", "keras")
def test_a_fit_inside_a_watch_is_seen_and_keras_is_left_as_it_was(tmp_path):
    watched = (EXAMPLES / "keras_callback.py").read_text()
    watched = watched.replace(
        "from trainload.integrations.keras import TrainloadCallback", "import trainload"
    )
    watched = watched.replace('callbacks=[TrainloadCallback("keras-example")],', "")
    watched = watched.replace(
        "    main()\n",
        "    plain = keras.Model.fit\n"
        "    with trainload.watch('inside'):\n"
        "        main()\n"
        "        assert keras.Model.fit is not plain\n"
        "    assert keras.Model.fit is plain\n"
        "    main()\n",
    )
    (tmp_path / "watched.py").write_text(watched)
    execute([tmp_path / "watched.py"], tmp_path)
    run = recorded(tmp_path)
    assert run.outcome == "completed" and run.manifest.framework == "tensorflow"
    check_keras(run, epochs=3, rows=1000, batch=64)


def check_keras(run, *, epochs, rows, batch):
    whole, rest = divmod(rows, batch)
    of_epoch = [batch] * whole + [rest] * bool(rest)
    assert run.steps["examples"].to_list() == of_epoch * epochs
    assert run.steps["epoch"].to_list() == sorted(list(range(epochs)) * len(of_epoch))
    assert run.epochs["steps"].to_list() == [len(of_epoch)] * epochs
    assert run.epochs["validation_accuracy"].max() > 0.5 and run.epochs["validation_s"].min() > 0
    assert run.summary.examples_per_s > 0 and run.summary.last_loss < run.summary.first_loss
    # The losses of an epoch's steps, weighted by their rows, are Keras' own mean of the epoch.
    for epoch in range(epochs):
        steps = run.steps.filter(run.steps["epoch"] == epoch)
        mean = (steps["loss"] * steps["examples"]).sum() / rows
        assert mean == pytest.approx(run.epochs["train_loss"][epoch], rel=1e-4)


@needs("jax")
def test_a_wrapped_jax_step_tells_steps_losses_and_rows(tmp_path):
    run = run_example(
        "jax_step", tmp_path,
        {'trainload.watch_step(step, name="jax-example", examples=64)': "step"},
        JAX_PLATFORMS="cpu",
    )  # fmt: skip
    assert run.steps.height == 200 and run.steps["examples"].unique().to_list() == [64]
    assert run.summary.last_loss < run.summary.first_loss
    assert run.manifest.framework == "jax" and run.summary.examples_per_s > 0


@needs("torch", "optuna")
def test_optuna_is_told_what_each_trial_costs(tmp_path):
    changes = {
        "measured(objective, limit_s=60, price_per_hour=2.5)": "objective",
        "in study.trials:": "in ():",
    }
    said = execute_both("optuna_costs", tmp_path, changes)
    assert said.count("COMPLETE") == 2 and "of money" in said
    runs = trainload.load_all(tmp_path / "runs")
    assert [run.manifest.workload.model for run in runs] == ["trial-0", "trial-1"]
    for run in runs:
        assert run.outcome == "completed" and run.steps.height == 99
        check_told(run)


@needs("torch", "optuna")
def test_optuna_prunes_a_trial_that_costs_too_much(tmp_path, monkeypatch):
    import time

    import optuna

    from trainload.integrations.optuna import measured

    def objective(trial):
        for step in range(50):
            time.sleep(0.02)
            trial.report(step, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return 0.0

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(pruner=optuna.pruners.NopPruner())
    study.optimize(measured(objective, limit_s=0.2, out=tmp_path, layers=False), n_trials=1)
    (trial,) = study.trials
    assert trial.state.name == "PRUNED" and trial.last_step < 40
    assert trial.user_attrs["trainload_pruned_by"].startswith("time 0.2")
    run = trainload.load(trial.user_attrs["trainload_run"])
    assert run.outcome == "completed"
    with pytest.raises(trainload.errors.UsageError, match="price_per_hour"):
        measured(objective, limit_money=1.0)


@needs("optuna")
def test_optuna_s_limits_know_energy_and_money_where_something_tells_them(make_run):
    from types import SimpleNamespace

    from trainload.integrations.optuna import _Limits, _Meter

    def limited(run, **limits):
        asked = dict.fromkeys(("limit_s", "limit_j", "limit_money", "price_per_hour"))
        return _Meter(SimpleNamespace(path=run), _Limits(**{**asked, **limits}))

    metered = limited(make_run(gpu=True), limit_j=1.0)
    assert metered.is_over() and metered.pruned_by.startswith("energy ")
    assert metered.cost().energy_j > 1.0 and metered.cost().money is None
    unmetered = limited(make_run(), limit_j=1.0, price_per_hour=3600.0)
    assert not unmetered.is_over() and unmetered.cost().energy_j is None
    assert unmetered.cost().money > 0
    assert limited(None, limit_money=0.0, price_per_hour=1.0).is_over()


@needs("torch", "lightning")
def test_a_callback_that_cannot_record_lets_the_training_go_on(tmp_path):
    (tmp_path / "runs").write_text("a file where the folder should be")
    said = execute([EXAMPLES / "lightning_callback.py"], tmp_path)
    assert "goes on unmeasured" in said and (tmp_path / "runs").is_file()


@needs("torch", "lightning")
def test_under_trainload_run_a_callback_opens_no_second_record(tmp_path):
    run = trainload.run(
        EXAMPLES / "lightning_callback.py",
        out=tmp_path / "runs", threads=1, check_overhead=False, layers=False,
        environment={"PYTHONPATH": str(SOURCE)},
    )  # fmt: skip
    assert run.outcome == "completed", run.worker_log_tail()
    assert run.steps.height == 63 and recorded(tmp_path).path == run.path


@needs("torch", "accelerate")
def test_an_accelerate_script_is_measured_as_it_stands(tmp_path):
    run = trainload.run(
        EXAMPLES.parent / "scripts" / "accelerate_loop.py",
        out=tmp_path / "runs", threads=1, check_overhead=False, layers=False,
    )  # fmt: skip
    assert run.outcome == "completed", run.worker_log_tail()
    # Two batches of 32 are one step; the first one only starts the clock.
    assert run.steps.height == 63 and run.steps["examples"].median() == 64
    assert run.summary.last_loss < run.summary.first_loss


def test_hooks_that_meet_an_error_only_warn(tmp_path):
    from trainload.integrations.following import Following, plain_values, scores_of

    (tmp_path / "file").write_text("")
    following = Following("x", tmp_path / "file", framework="torch")
    with pytest.warns(UserWarning, match="unmeasured"):
        following.begin()
    following.begin_epoch(0)
    following.end_epoch()
    following.end()
    assert following.path is None
    metrics = {"val_loss": 1, "val/acc": 0.5, "eval_f1_macro": 0.25, "loss": 3, "text": "x"}
    assert scores_of(metrics) == {"loss": 1.0, "accuracy": 0.5, "f1_macro": 0.25}
    assert plain_values({"a": 1, "b": object(), "c": float("nan")}) == {"a": 1}


@needs("torch")
def test_a_training_that_nobody_ends_is_interrupted_by_the_next_or_by_the_end(tmp_path):
    program = textwrap.dedent(
        """
        from trainload.integrations.following import Following
        following = Following("left", "runs", framework="torch", layers=False)
        following.begin()
        first = following.path
        following.begin()
        """
    )
    (tmp_path / "left.py").write_text(program)
    execute([tmp_path / "left.py"], tmp_path)
    reasons = [run.manifest.outcome_reason for run in trainload.load_all(tmp_path / "runs")]
    assert sorted(reasons) == [
        "another training began before this one was ended",
        "the program ended before the training did",
    ]
