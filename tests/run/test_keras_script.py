"""A Keras script, unchanged: steps, losses, rows and epochs come from Keras' own hooks."""

import importlib.util
import sys
from pathlib import Path

import pytest

import trainload
from trainload.errors import UsageError
from trainload.run import find_environment
from trainload.run.request import prepare_request

SCRIPT = Path(__file__).parents[2] / "examples" / "scripts" / "keras_fit.py"
pytestmark = pytest.mark.framework("tensorflow")


def interpreter():
    """One that has TensorFlow: this one, else that of its own environment; skips without any."""
    if importlib.util.find_spec("tensorflow") is not None:
        return sys.executable
    found = find_environment("tensorflow")
    if found.problem is not None or found.python is None:
        pytest.skip(f"{found.problem}; for these tests: make environments")
    return found.python


def run_script(script, tmp_path, *words):
    return trainload.run(
        script, arguments=words, framework="tensorflow", python=interpreter(),
        out=tmp_path / "runs", threads=1, check_overhead=False,
    )  # fmt: skip


def test_fit_tells_steps_rows_losses_epochs_and_validations(tmp_path):
    words = ["--epochs", "3", "--rows", "1000", "--out", str(tmp_path / "out")]
    run = run_script(SCRIPT, tmp_path, *words)
    assert run.outcome == "completed", run.worker_log_tail()
    of_epoch = [64] * 12 + [32]
    assert run.steps["examples"].to_list() == of_epoch * 3
    assert run.epochs["steps"].to_list() == [13, 13, 13]
    assert run.epochs["validation_accuracy"].null_count() == 0
    assert run.summary.examples_per_s > 0 and run.summary.last_loss < run.summary.first_loss
    for epoch in range(3):
        steps = run.steps.filter(run.steps["epoch"] == epoch)
        mean = (steps["loss"] * steps["examples"]).sum() / 800
        assert mean == pytest.approx(run.epochs["train_loss"][epoch], rel=1e-4)


def test_scripts_whose_steps_nothing_tells_are_refused_in_one_line(tmp_path):
    with pytest.raises(UsageError, match=r"torch and tensorflow.*watch_step"):
        prepare_request(str(SCRIPT), {}, framework="jax", out=tmp_path)


OWN = """
import os, sys
assert "keras" not in sys.modules and "tensorflow" not in sys.modules
import keras, numpy as np, tensorflow as tf

class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
    def call(self, rows):
        return self.dense(rows)
    def train_step(self, data):
        rows, labels = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(rows) - labels) ** 2)
        slopes = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(slopes, self.trainable_variables))
        return {"loss": loss}

rows = np.ones((64, 4), "float32")
model = Own()
model.compile("sgd")
data = tf.data.Dataset.from_tensor_slices((rows, rows[:, :1])).batch(16)
history = []
keep = keras.callbacks.LambdaCallback(on_train_batch_end=lambda b, logs: history.append(logs))
model.fit(data, epochs=1, verbose=0, callbacks=keep)
model.fit(data, epochs=2, verbose=0, callbacks=[keep])
assert len(history) == 12
print("LOSSES", [float(one["loss"]) for one in history])
raise SystemExit(3)
"""


def test_own_train_steps_several_fits_and_an_early_end(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    run = run_script(tmp_path / "own.py", tmp_path)
    assert run.outcome == "failed" and "exited with 3" in run.manifest.outcome_reason
    log = (run.path / "worker.log").read_text()
    losses = eval(log.split("LOSSES ")[1].splitlines()[0])
    assert run.steps["loss"].to_list() == pytest.approx(losses)
    assert run.steps["step"].to_list() == list(range(12))
    assert run.epochs["epoch"].to_list() == [0, 1, 2]
    assert run.steps["examples"].null_count() == 12
    assert any("train_step of its own" in text for text in run.summary.warnings)
