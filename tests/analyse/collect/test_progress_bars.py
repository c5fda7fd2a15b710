"""Logs as Lightning, Hugging Face's Trainer, Keras and timm print them, against the known truth.

`logs/` holds what Lightning 2.6, transformers 5.22 and Keras 3.15 wrote to a file for three epochs
of ten steps that sleep 50 ms each, with a validation of four batches (Trainer: ten) after each;
timm.log is written by hand in the form of timm 1.0's train.py.
"""

from pathlib import Path

import pytest

from trainload.analyse.collect import LogReading, choose_for_file
from trainload.errors import UsageError

LOGS = Path(__file__).parent / "logs"


def collect(name, text=None, tmp_path=None):
    path = LOGS / name
    if text is not None:
        path = tmp_path / name
        path.write_text(text, newline="")
    with LogReading(path, choose_for_file(path), {}) as reading:
        return list(reading.rows()), reading.experiment()


@pytest.mark.parametrize("name", ["lightning", "huggingface", "keras1", "keras2"])
def test_every_bar_tells_the_whole_training(name):
    rows, found = collect(f"{name}.log")
    assert found.pattern == name.rstrip("12")
    assert (found.done, found.total, found.epochs) == (30, 30, 3)
    assert not any("again" in note for note in found.notes)
    assert rows[-1]["iteration"] == 30 if name == "huggingface" else 10


def test_lightnings_rate_is_that_of_the_whole_bar():
    rows, found = collect("lightning.log")
    assert len(rows) == 30 and found.total_time_s == pytest.approx(2.39, abs=0.01)
    # As the program's own clock had it at the end of each step of the first epoch.
    truth = [0.0669, 0.1208, 0.1782, 0.2326, 0.291, 0.3472, 0.4006, 0.4551, 0.5298]
    assert [row["elapsed_s"] for row in rows[:9]] == pytest.approx(truth, abs=0.001)
    # The last state of the epoch holds its validation, the time of its last step does not.
    assert rows[9]["time_s"] == pytest.approx(0.0523, abs=0.001)
    assert rows[9]["elapsed_s"] == pytest.approx(0.807, abs=0.001)
    assert [row["loss"] for row in rows[:4]] == [2.30, 3.07, 2.53, 2.41]
    assert [row.get("validation_loss") for row in rows[8:10]] == [None, 2.5]


def test_a_long_bar_leaves_steps_empty_that_its_digits_cannot_tell(tmp_path):
    states = (
        f"Epoch 0: {n // 10}%|█| {n}/1000 [{n // 300:02d}:{n // 5 % 60:02d}<00:10, 5.00it/s]"
        for n in range(1, 1001)
    )
    rows, found = collect("long.log", "\r".join(states), tmp_path)
    assert found.total_time_s == 200.0
    told = [row["time_s"] for row in rows if row["time_s"] is not None]
    assert told == pytest.approx([0.2] * len(told)) and 50 < len(told) < 500


def test_the_rich_bar_of_several_epochs_is_refused_in_a_file():
    with pytest.raises(
        UsageError, match=r"only the last state .* epoch 2 \(0 to 2\).*TQDMProgress"
    ):
        collect("lightning_rich.log")


def test_the_rich_bar_of_one_epoch_is_whole(tmp_path):
    line = "Epoch 0/0  ━━━━━━━━ 500/500 0:00:02 •  238.72it/s train_loss: 2.289\n"
    (row,), found = collect("one.log", line, tmp_path)
    assert (found.done, found.total, found.epochs, found.total_time_s) == (500, 500, 1, 2.0)
    assert row["time_s"] == pytest.approx(1 / 238.72) and row["loss"] == 2.289


def test_trainer_losses_belong_to_the_bar_drawn_behind_them():
    rows, found = collect("huggingface.log")
    losses = {row["iteration"]: row["loss"] for row in rows if "loss" in row}
    assert losses == {5: 2.29, 10: 2.329, 15: 2.302, 20: 2.346, 25: 2.404, 30: 2.275}
    assert [r["iteration"] for r in rows if "validation_loss" in r] == [10, 20, 30]
    assert found.total_time_s == 3.303 and found.times_s[100] == pytest.approx(3.304, abs=0.001)
    assert found.validation_time_s == pytest.approx(0.5465 + 0.5339 + 0.5325)
    told = [row["time_s"] for row in rows if row["time_s"] is not None]
    assert told == pytest.approx([0.058] * 6, abs=0.007)  # none that an evaluation is smoothed into


def test_an_evaluation_longer_than_the_training_is_not_taken_for_it(tmp_path):
    text = (
        "\r 50%|█| 5/10 [00:01<00:01, 5.0it/s]\r   \r{'loss': '2.5', 'epoch': '0.5'}\n"
        "\r 50%|█| 5/10 [00:01<00:01, 5.0it/s]"
        + "".join(f"\n {n}%|█| {n}/100 [00:0{n // 50}<00:01, 50.0it/s]\x1b[A" for n in (1, 50, 100))
        + "\r100%|█| 10/10 [00:04<00:00, 5.0it/s]\r100%|█| 10/10 [00:04<00:00, 2.4it/s]\n"
    )
    rows, found = collect("eval.log", text, tmp_path)
    assert [row["iteration"] for row in rows] == [5, 10] and rows[0]["loss"] == 2.5
    assert (found.done, found.total) == (10, 10)
    assert found.total_time_s == pytest.approx(10 / 2.4)


def test_a_nested_bar_as_long_as_the_trainings_is_left_out(tmp_path):
    bars = "\r 50%|█| 5/10 [00:01<00:01, 5.0it/s]\n\r100%|█| 10/10 [00:01<00:00, 9.0it/s]\x1b[A"
    rows, found = collect("n.log", bars + "\r100%|█| 10/10 [00:04<00:00, 2.4it/s]\n", tmp_path)
    assert [row["elapsed_s"] for row in rows] == [1.0, 4.0]
    assert not any("starts again" in note for note in found.notes)


def test_keras_rounds_epochs_to_seconds_and_its_mean_tells_more():
    rows, found = collect("keras1.log")
    # The program's own clock had 3.42 s with what lies before and between epochs.
    assert found.total_time_s == pytest.approx(3.35, abs=0.07)
    first = [row for row in rows if row["epoch"] == 1]
    assert first[0]["time_s"] == 0.74 and first[1]["time_s"] == 0.056
    assert first[-1]["time_s"] is None and first[-1]["validation_loss"] == 2.4746
    _, short = collect("keras2.log")
    assert short.total_time_s == pytest.approx(3.84, abs=0.15)


def test_timm_prints_one_update_and_the_mean_of_its_epoch():
    rows, found = collect("timm.log")
    assert found.pattern == "timm" and (found.done, found.total, found.epochs) == (8, 8, 2)
    assert [row["time_s"] for row in rows] == [1.25, 0.35, 0.35, 0.45, 0.35, 0.35]
    assert [row["loss"] for row in rows] == [6.94, 6.91, 6.90, 6.80, 6.75, 6.70]
    assert found.total_time_s == pytest.approx(4 * 0.575 + 4 * 0.375)
