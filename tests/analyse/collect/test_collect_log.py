"""Whole logs: times given back exactly, places found, and trouble said instead of hidden."""

import json
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainload.analyse.collect import LogReading, choose_for_file
from trainload.analyse.collect.curve import ProgressCurve
from trainload.errors import TrainloadError

IN_PLACE = [HealthCheck.function_scoped_fixture]


def collect(path, text=None, config=None, **options):
    """Rows and the experiment of a log."""
    if text is not None:
        path = path / "train.log"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with LogReading(path, choose_for_file(path, **options), config or {}) as reading:
        rows = list(reading.rows())
        assert all(set(row) <= {*reading.columns, "epochs", "iterations"} for row in rows)
        return rows, reading.experiment()


def study_e(times_us, first=0):
    return "".join(
        f"Epoch {epoch}. Loss: 1.5, Train acc 0.25, Test acc 0.5\n"
        f"Epoch {epoch} training: err-top1=0.75 err-top5=0.25\n"
        f"Epoch {epoch} time cost: {time_us / 1e6:.6f}\n"
        for epoch, time_us in enumerate(times_us, first)
    )


TIMES_US = st.lists(st.integers(1, 10**9), min_size=1, max_size=30)


@settings(max_examples=100, deadline=None, suppress_health_check=IN_PLACE)
@given(TIMES_US)
def test_study_e_gives_its_times_back_exactly(tmp_path, times_us):
    rows, found = collect(tmp_path, study_e(times_us))
    assert [row["epoch_time_s"] for row in rows] == [us / 1e6 for us in times_us]
    assert [row["epoch"] for row in rows] == list(range(len(times_us)))
    assert found.total_time_s == found.times_s[100] == sum(times_us) / 1e6
    assert found.total == found.done == found.epochs == len(times_us) and found.unit == "epochs"
    if len(times_us) % 4 == 0:
        quarter = len(times_us) // 4
        for part in (1, 2, 3):
            assert found.times_s[25 * part] == sum(times_us[: part * quarter]) / 1e6


@settings(max_examples=100, deadline=None, suppress_health_check=IN_PLACE)
@given(TIMES_US, st.sampled_from([0, 1]))
def test_iteration_times_come_back_exactly(tmp_path, times_us, first):
    text = "".join(
        f"step {step}, loss = 0.5 (3.0 examples/sec; {us / 1e6:.6f} sec/batch)\n"
        for step, us in enumerate(times_us, first)
    )
    rows, found = collect(tmp_path, text)
    assert [row["time_s"] for row in rows] == [us / 1e6 for us in times_us]
    assert found.total_time_s == found.times_s[100] == sum(times_us) / 1e6
    assert found.done == found.total == len(times_us) and not found.notes


@settings(max_examples=60, deadline=None, suppress_health_check=IN_PLACE)
@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=30))
def test_timestamps_give_back_the_times_between_them(tmp_path, gaps_us):
    moments_us = [1_700_000_000_000_000]
    for gap_us in gaps_us:
        moments_us.append(moments_us[-1] + gap_us)
    text = "".join(f"{us // 10**6}.{us % 10**6:06d} step {i}\n" for i, us in enumerate(moments_us))
    rows, found = collect(tmp_path, text)
    assert [row["time_s"] for row in rows[1:]] == [us / 1e6 if us else None for us in gaps_us]
    assert found.total_time_s == (sum(gaps_us) / 1e6 or None)


@settings(max_examples=150, deadline=None, suppress_health_check=IN_PLACE)
@given(st.binary(max_size=300) | st.lists(st.sampled_from([
    "Epoch 1/3", "step 5, loss = 1", "Epoch 0 time cost: 3", "Epoch[0] Time cost=1",
    " 5%|x| 5/9 [00:03<00:01, 2it/s]", "{'loss': 1, 'epoch': 2.5}", "{'train_runtime': 3}",
    "9/9 [===] - 3s 2ms/step", "Epoch: [7][3/9]\tTime 1 (2)", "2024-01-01 00:00:00 step 9",
    "Epoch 9. Loss: nan, Train acc 1, Test acc 1", "epoch 99999999999999 loss 1",
    "1e999 it/s step 1", "step 0 loss 2",
]), max_size=12).map(lambda lines: "\n".join(lines).encode()))  # fmt: skip
def test_any_log_gives_rows_or_a_typed_error(tmp_path, content):
    try:
        _, found = collect(tmp_path, content)
    except TrainloadError as error:
        assert "train.log" in str(error)
        return
    times = [t for t in found.times_s.values() if t is not None]
    assert times == sorted(times) and all(t > 0 for t in times)
    assert found.total_time_s is None or found.total_time_s > 0


def test_epochs_missing_from_the_log_leave_the_total_unknown(tmp_path):
    rows, found = collect(tmp_path, study_e([2_000_000] * 2) + "...\n" + study_e([2_000_000], 9))
    assert [row["elapsed_s"] for row in rows] == [2.0, 4.0, None]
    assert found.total_time_s is None and found.total == 10
    assert found.times_s == {25: None, 50: None, 75: None, 100: None}
    assert "7 epochs are missing" in found.notes[0]


def test_resumed_epochs_count_in_the_total_once_each(tmp_path):
    text = study_e([1_000_000] * 3) + study_e([1_000_000] * 2, 2)
    rows, found = collect(tmp_path, text)
    assert [row["epoch"] for row in rows] == [0, 1, 2, 2, 3]
    assert found.total_time_s == 5.0 and found.total == 4
    assert found.times_s == {25: 1.0, 50: 2.0, 75: 3.0, 100: 5.0}
    assert "training starts again at an earlier place at line 10" in found.notes[0]


def test_a_clock_that_goes_back_is_said(tmp_path):
    stamps = ("12:00:00", "12:00:02", "11:00:00", "11:00:01")
    text = "".join(f"2024-01-01 {s} INFO step {i}\n" for i, s in enumerate(stamps))
    rows, found = collect(tmp_path, text)
    assert [row["time_s"] for row in rows] == [None, 2.0, None, 1.0]
    assert found.total_time_s == 3.0 and "the clock goes back at line 3" in found.notes[0]
    assert found.times_s[25] is None and found.times_s[100] == 3.0


def test_midnight_is_no_clock_going_back(tmp_path):
    rows, found = collect(tmp_path, "23:59:59 step 1\n00:00:01 step 2\n")
    assert found.total_time_s == 2.0 and not found.notes and rows[1]["time_s"] == 2.0


HUGGING_FACE = (
    "  0%|          | 0/100 [00:00<?, ?it/s]\r 25%|██  | 25/100 [00:10<00:30,  2.50it/s]\r      \r"
    "{'loss': 2.5, 'learning_rate': 5e-05, 'epoch': 0.25}\n"
    "\r 25%|██  | 25/100 [00:10<00:30, 2.5it/s]\r 50%|██  | 50/100 [00:20<00:30,  2.50it/s]\r"
    "\r  0%|   | 0/10 [00:00<?, ?it/s]\r"
    "100%|  | 10/10 [00:01<00:00, 10it/s]{'eval_loss': 1.0, 'eval_runtime': 1.5, 'epoch': 0.5}\n"
    "\r 50%|██  | 50/100 [00:21<00:30,  2.50it/s]\r"
    "100%|██| 100/100 [00:41<00:00,  2.4s/it]\n{'train_runtime': 41.5, 'epoch': 1.0}\n"
)


def test_hugging_face_bars_redrawn_and_of_validation(tmp_path):
    rows, found = collect(tmp_path, HUGGING_FACE)
    assert [row["iteration"] for row in rows] == [25, 50, 100]
    assert rows[0]["loss"] == 2.5 and rows[0]["time_s"] == 0.4 and rows[1]["validation_loss"] == 1.0
    assert found.total_time_s == 41.5 and found.validation_time_s == 1.5
    assert found.times_s == {25: 10.0, 50: 21.0, 75: 31.0, 100: 41.0}
    assert any("1 lines of progress bars of another length" in note for note in found.notes)


def test_without_bars_the_stated_runtime_is_all_that_is_known(tmp_path):
    lines = "".join(f"{{'loss': 1.0, 'epoch': {i}.0}}\n" for i in range(1, 5))
    rows, found = collect(tmp_path, lines + "{'train_runtime': 8.0}\n")
    assert len(rows) == 4 and found.total_time_s == 8.0 and found.done == 4
    assert found.times_s == {25: None, 50: None, 75: None, 100: 8.0}


def test_keras_epochs_and_a_training_cut_short(tmp_path):
    epoch = (
        "Epoch {}/4\n 50/100 [====>....] - ETA: 3s - loss: 0.9\r"
        "100/100 [=========] - 12s 125ms/step - loss: 0.5 - val_loss: 0.7\n"
    )
    rows, found = collect(tmp_path, "".join(epoch.format(i) for i in (1, 2, 3)) + "Killed\n")
    assert [(row["epoch"], row["iteration"]) for row in rows] == [
        (e, i) for e in (1, 2, 3) for i in (50, 100)
    ]
    assert found.epochs == 4 and (found.done, found.total) == (300, 400)
    assert found.times_s == {25: 12.5, 50: 25.0, 75: 37.5, 100: None}
    assert "after 300 of 400 iterations" in found.notes[0]


def test_lightning_bars_start_anew_each_epoch(tmp_path):
    bar = "Epoch {}: 100%|██| 10/10 [00:05<00:00,  2.0it/s, train_loss=0.5]\n"
    _, found = collect(tmp_path, "".join(bar.format(i) for i in range(4)))
    assert found.times_s == {25: 5.0, 50: 10.0, 75: 15.0, 100: 20.0} and found.done == 40


def test_mxnet_needs_the_batch_size_which_the_log_may_state(tmp_path):
    text = "".join(
        f"INFO:root:Epoch[0] Batch [{i}]\tSpeed: 320.0 samples/sec\n" for i in range(0, 40, 10)
    )
    _, found = collect(tmp_path, text)
    assert found.total_time_s is None and "--config batch_size" in found.notes[1]
    _, found = collect(tmp_path, "INFO:root:Namespace(batch_size=32, lr=0.1)\n" + text)
    assert found.config == {"batch_size": "32", "learning_rate": "0.1"}
    assert found.total_time_s == pytest.approx(3.1) and found.done == 31
    rows, found = collect(tmp_path, text, {"batch_size": "64", "model": "x"})
    assert found.config["model"] == "x" and rows[0]["time_s"] == 0.2


def test_the_epochs_time_overrides_sums_of_single_times(tmp_path):
    text = "batch_size=32\n" + "".join(
        f"Epoch[{e}] Batch [19]\tSpeed: 320.0 samples/sec\nEpoch[{e}] Time cost={cost}\n"
        for e, cost in ((0, 1.5), (1, 4.0))
    )
    rows, found = collect(tmp_path, text)
    assert [row["elapsed_s"] for row in rows] == [1.5, 5.5]
    assert found.times_s[50] == 1.5 and found.times_s[100] == found.total_time_s == 5.5


def test_the_running_mean_tells_the_iterations_that_were_not_printed(tmp_path):
    text = "".join(
        f"Epoch: [{e}][{i}/20]\tTime 9.0 ( 0.5)\tLoss 1.0 (1.0)\n"
        for e in (0, 1)
        for i in (0, 10, 19)
    )
    _, found = collect(tmp_path, text)
    assert found.total_time_s == 20.0
    assert found.times_s == {25: 5.0, 50: 10.0, 75: 15.0, 100: 20.0}


def test_a_log_that_begins_in_the_middle(tmp_path):
    text = "".join(
        f"step {i}, loss = 1.0 (3.0 examples/sec; 0.5 sec/batch)\n" for i in range(1000, 1100, 10)
    )
    _, found = collect(tmp_path, text)
    assert found.done == 100 and found.total_time_s == 50.0
    assert any("begins after about 990 iterations" in note for note in found.notes)


def test_iterations_that_count_anew_are_epochs(tmp_path):
    text = "".join(f"iter {i} loss 1.0 time 0.5 s\n" for _ in range(3) for i in range(4))
    _, found = collect(tmp_path, text)
    assert found.done == 12 and found.epochs == 3 and found.total_time_s == 6.0
    assert "count from the start again 2 times, first at line 5" in found.notes[0]


def test_rows_without_any_number_are_counted(tmp_path):
    own = tmp_path / "own.json"
    own.write_text(json.dumps({"name": "bare", "expressions": [r"^took (?P<time_ms>\d+)"]}))
    _, found = collect(tmp_path, "took 10\ntook 20\ntook 10\ntook 40\n", own=own)
    assert found.done == 4 and found.unit == "iterations"
    assert found.times_s == {25: 0.01, 50: 0.03, 75: 0.04, 100: 0.08}


def test_a_log_without_times_says_so(tmp_path):
    _, found = collect(tmp_path, "step 1, loss = 1.0\nstep 2, loss = 0.5\n")
    assert found.total_time_s is None and set(found.times_s.values()) == {None}
    assert found.notes[0].startswith("no time is printed") and found.done == 2


def test_the_row_holds_configuration_and_times(tmp_path):
    _, found = collect(tmp_path, study_e([1_000_000] * 4), {"board": "tx2"})
    assert found.row("train.log") == {
        "source": "train.log", "pattern": "edge-evaluation", "board": "tx2", "epochs": 4,
        "epochs_done": 4,
        "epochs_total": 4, "total_time_s": 4.0, "validation_time_s": None,
        "time_at_25_percent_s": 1.0, "time_at_50_percent_s": 2.0, "time_at_75_percent_s": 3.0,
        "time_at_100_percent_s": 4.0,
    }  # fmt: skip


def test_memory_does_not_grow_with_the_log(tmp_path):
    path = tmp_path / "long.log"
    with path.open("w") as file:
        for i in range(30_000):
            file.write(f"step {i}, loss = 1.0 (3.0 examples/sec; 0.5 sec/batch) {'x' * 200}\n")
    choice = choose_for_file(path)
    tracemalloc.start()
    with LogReading(path, choice, {}) as reading:
        count = sum(1 for _ in reading.rows())
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == 30_000 and reading.experiment().times_s[50] == 7500.0
    assert peak_bytes < 4 * 2**20 < path.stat().st_size


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=40))
def test_the_curve_never_falls_and_stays_between_its_points(points):
    with ProgressCurve() as curve:
        for done, elapsed in points:
            curve.add(done, elapsed)
        times = [curve.time_ns(done / 2) for done in range(101)]
    known = [time for time in times if time is not None]
    assert known == sorted(known) and known[-1] == curve.last[1]


def test_many_points_go_to_a_file_and_are_found_there():
    with ProgressCurve(kept_bytes=64) as curve:
        for done in range(100):
            curve.add(done, done * 10)
        assert curve.time_ns(50) == 500 and curve.time_ns(50.5) == 505
        assert curve.time_ns(100) is None
