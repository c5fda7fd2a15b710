"""Each named pattern on the lines it is named for; patterns of one's own; choosing."""

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainload.analyse.collect import NAMED, choose_for_file, load_patterns
from trainload.analyse.collect.timestamps import find_stamp
from trainload.errors import TrainloadError, UsageError

STUDY_E = """\
Epoch 0. Loss: 2.1653266438665644, Train acc 0.211615384615, Test acc 0.216
Epoch 0 training: err-top1=0.863154 err-top5=0.437385
Epoch 0 time cost: 445.511252
"""
LINES = {
    "edge-evaluation": [
        (STUDY_E.splitlines()[0], {"epoch": 0, "loss": 2.1653266438665644, "test_accuracy": 0.216}),
        (STUDY_E.splitlines()[1], {"epoch": 0, "top1_error": 0.863154, "top5_error": 0.437385}),
        (STUDY_E.splitlines()[2], {"epoch": 0, "epoch_time_s": 445.511252}),
    ],
    "tensorflow": [
        (
            "2018-05-01 12:00:00.1: step 10, loss = 4.65 (325.3 examples/sec; 0.393 sec/batch)",
            {"iteration": 10, "loss": 4.65, "samples_per_s": 325.3, "time_s": 0.393},
        ),
        (
            "epoch 2, step 30, loss = 6.9, Top-1 = 0.1 Top-5 = 0.5 (3 examples/sec; 4 sec/batch)",
            {"epoch": 2, "iteration": 30, "top1_fraction": 0.1, "topn_fraction": 0.5, "time_s": 4},
        ),
        ("INFO:tensorflow:loss = 0.5, step = 200 (3.25 sec)", {"iteration": 200, "lap_s": 3.25}),
    ],
    "huggingface": [
        (
            " 12%|█▏        | 12/100 [00:03<00:20,  4.20it/s]",
            {"iteration": 12, "iterations": 100, "elapsed_s": 3.0, "rate_per_s": 4.2},
        ),
        (
            " 50%|█████     | 50/100 [1:02:03<1:02:03, 74.46s/it]",
            {"iteration": 50, "elapsed_s": 3723.0, "time_s": 74.46},
        ),
        (
            "{'loss': 2.5, 'grad_norm': 1.0, 'learning_rate': 5e-05, 'epoch': 0.25}",
            {"loss": 2.5, "learning_rate": 5e-5, "epoch_progress": 0.25},
        ),
        ("{'loss': '0.51', 'epoch': '1.5'}", {"loss": 0.51, "epoch_progress": 1.5}),
        ("{'eval_loss': 0.7, 'eval_runtime': 1.5}", {"validation_time_s": 1.5}),
        ("{'train_runtime': 41.5, 'epoch': 1.0}", {"total_time_s": 41.5}),
    ],
    "keras": [
        ("Epoch 1/10", {"epoch": 1, "epochs": 10}),
        (
            " 12/100 [==>...........] - ETA: 3s - loss: 0.9 - accuracy: 0.5",
            {"iteration": 12, "iterations": 100, "loss": 0.9, "accuracy": 0.5},
        ),
        (
            "100/100 [==============] - 3s 25ms/step - loss: 0.5 - val_loss: 0.7",
            {"epoch_time_s": 3, "later_mean_time_s": 0.025, "loss": 0.5, "validation_loss": 0.7},
        ),
        ("100/100 - 3s - loss: 0.5 - 25ms/step", {"epoch_time_s": 3, "later_mean_time_s": 0.025}),
        (
            "100/100 ━━━━━━━━━━ 3s 250us/step - loss: 0.5",
            {"later_mean_time_s": 0.00025, "loss": 0.5},
        ),
    ],
    "mxnet": [
        (
            "INFO:root:Epoch[3] Batch [20]\tSpeed: 1234.5 samples/sec\taccuracy=0.25",
            {"epoch": 3, "iteration": 20, "samples_per_s": 1234.5, "accuracy": 0.25},
        ),
        ("INFO:root:Epoch[1] Batch [20-40]\tSpeed: 9.5 samples/sec", {"iteration": 40}),
        ("INFO:root:Epoch[0] Time cost=12.300", {"epoch": 0, "epoch_time_s": 12.3}),
    ],
    "pytorch-imagenet": [
        (
            "Epoch: [0][  10/5005]\tTime  0.350 ( 0.420)\tData  0.1 ( 0.2)\tLoss 6.9e+00 (7.0)",
            {"iterations": 5005, "time_s": 0.35, "mean_time_s": 0.42, "data_s": 0.1, "loss": 6.9},
        ),
        ("Epoch: [0] Total time: 0:01:30", {"epoch": 0, "epoch_time_s": 90.0}),
    ],
    "timm": [
        (
            "Train: 1 [  50/1251 (  4%)]  Loss: 6.91 (6.93)  Time: 0.350s,  731.43/s  "
            "(0.420s,  609.52/s)  LR: 1.000e-05  Data: 0.010 (0.050)",
            {"epoch": 1, "iteration": 50, "iterations": 1251, "loss": 6.91, "time_s": 0.35,
             "mean_time_s": 0.42, "samples_per_s": 731.43, "data_s": 0.01},
        ),
    ],
    "lightning": [
        (
            "Epoch 2:  12%|█▏  | 12/100 [00:03<00:20,  4.20it/s, v_num=0, train_loss=0.5]",
            {"epoch": 2, "iteration": 12, "epoch_elapsed_s": 3.0, "loss": 0.5},
        ),
    ],
    "tqdm": [("train: 12%|#2 | 12/100 [00:03<00:20, 4.2it/s, loss=0.25]", {"loss": 0.25})],
    "generic": [
        ('{"step": 7, "loss": 0.5, "time_s": 0.25}', {"iteration": 7, "time_s": 0.25}),
        ("Epoch [2/10], Step [30/100], Loss: 0.1", {"epoch": 2, "iterations": 100, "loss": 0.1}),
        ("iter 5: loss 3.1, time 12.5ms", {"iteration": 5, "loss": 3.1, "time_s": 0.0125}),
    ],
}  # fmt: skip


def test_every_named_pattern_is_tried_here():
    assert LINES.keys() == NAMED.keys()


@pytest.mark.parametrize(
    ("name", "line", "said"), [(name, *case) for name, cases in LINES.items() for case in cases]
)
def test_a_line_says_what_it_says(name, line, said):
    reading, _ = NAMED[name].read_line(line)
    assert {key: reading.get(key) for key in said} == said


@pytest.mark.parametrize("name", [name for name in LINES if not NAMED[name].general])
def test_the_right_pattern_is_chosen_among_all(name, tmp_path):
    path = tmp_path / "train.log"
    path.write_text("loading data\n" + "\n".join(line for line, _ in LINES[name]) + "\nbye\n")
    assert choose_for_file(path).pattern.name == name


def test_lines_of_no_log_fit_nothing():
    for line in ("", "Traceback (most recent call last):", "epochs=10, batch_size=3", "x" * 4096):
        assert not [name for name, pattern in NAMED.items() if pattern.read_line(line)]


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", NAMED)
def test_a_long_hostile_line_is_read_as_its_beginning_or_not_at_all(name):
    """No expression backtracks without end: each of these ends, or the test's time runs out."""
    for piece in (
        "1",
        "Epoch 1 ",
        "step 1, ",
        "{'loss': 1, ",
        "1%|",
        "time: 1 ",
        "Epoch[1] Batch ",
    ):
        long = NAMED[name].read_line((piece * 4096)[:4096])
        if len(piece) > 1:
            # A number of 4,096 digits is another number; a repeated piece is what it was.
            assert bool(long) in (False, bool(NAMED[name].read_line(piece * 8)))


def test_own_patterns_come_before_the_named_and_force_takes_any(tmp_path):
    log, own = tmp_path / "a.log", tmp_path / "own.json"
    log.write_text("tick 1 took 20 ms\ntick 2 took 30 ms\nstep 1, loss = 1.0 (\n")
    own.write_text(
        json.dumps(
            {"name": "tick", "expressions": [r"^tick (?P<iteration>\d+) took (?P<time_ms>\d+) ms"]}
        )
    )
    choice = choose_for_file(log, own=own)
    assert choice.pattern.name == "tick" and choice.matched == {"tick": 2}
    assert choice.pattern.columns == ("iteration", "time_s")
    assert choose_for_file(log, forced="tensorflow", own=own).pattern.name == "tensorflow"
    with pytest.raises(UsageError, match="unknown; known are edge-evaluation"):
        choose_for_file(log, forced="nope")
    with pytest.raises(UsageError, match=r"tried keras\); describe its lines"):
        choose_for_file(log, forced="keras")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[]", "holds no pattern"),
        ("3", "must be"),
        ('{"name": "a"}', "expressions must be a list"),
        ('{"name": 3, "expressions": ["(?P<time_s>a)"]}', "must be text"),
        ('{"name": "a", "expressions": ["("]}', "is no regular expression"),
        ('{"name": "a", "expressions": ["a"]}', "has no named group"),
        ('{"name": "a", "expressions": ["(?P<time>a)"]}', "states no unit; name it one of time_us"),
        ('{"name": "a", "expressions": ["(?P<rate>a)"]}', "name it rate_per_s"),
        ('{"name": "a", "expressions": ["(?P<loss>a)"], "frst": 1}', "unknown key 'frst'"),
        ('{"expressions": ["(?P<loss>a)"], "first_iteration": 2}', "must be 0, 1 or null"),
        ('{"expressions": ["(?P<loss>a)"], "one_bar": 2}', "must be true or false"),
    ],
)
def test_a_wrong_pattern_file_is_said_in_one_line(text, words, tmp_path):
    path = tmp_path / "own.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=re.escape(words)):
        load_patterns(path)


def test_a_pattern_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="cannot read pattern file"):
        load_patterns(tmp_path / "none.json")


_KEYS = st.sampled_from(["name", "about", "expressions", "first_iteration", "one_bar", "x"])
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=8,
)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.binary(max_size=200) | _JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_as_a_pattern_file_only_raise_typed_errors(tmp_path, content):
    path = tmp_path / "own.json"
    path.write_bytes(content)
    try:
        assert load_patterns(path)
    except TrainloadError as error:
        assert str(path) in str(error)


@pytest.mark.parametrize(
    ("line", "later", "apart_ns"),
    [
        ("2024-01-01 12:00:00,250 a", "2024-01-01 12:00:01 b", 750_000_000),
        ("[2024-02-28T23:59:59.5Z] a", "[2024-02-29T00:00:00Z]", 500_000_000),
        ("2024-01-01 12:00:00+01:00", "2024-01-01 12:00:00Z", 3600 * 10**9),
        ("I0101 12:00:00.000001 a", "I0101 12:00:00.000002 b", 1000),
        ("1700000000.5 a", "1700000001 b", 500_000_000),
        ("12:00:00 a", "12:00:01 b", 10**9),
    ],
)  # fmt: skip
def test_timestamps(line, later, apart_ns):
    assert find_stamp(later)[0] - find_stamp(line)[0] == apart_ns


@pytest.mark.parametrize(
    "line",
    ["", "2024-13-01 12:00:00", "2024-01-01 25:00:00", "12:61:00", "00:03:00<00:20:00", "12"],
)
def test_what_is_no_timestamp(line):
    assert find_stamp(line) is None
