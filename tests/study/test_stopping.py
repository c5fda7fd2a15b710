"""Which cells are repeated: so many times, until an interval is narrow or a ranking decided."""

from trainload.study.file import StoppingOptions, StudyKeys
from trainload.study.stopping import FixedRepetitions, choose_stopping, least_repetitions

STEADY = [1.0, 1.001, 0.999, 1.002, 0.998, 1.0005, 1.0015]
NOISY = [1.0, 2.0, 0.5, 1.5, 3.0, 0.7, 1.1]


def test_a_fixed_number_counts_alone():
    rule = choose_stopping(StudyKeys(name="s", repetitions=2))
    assert rule == FixedRepetitions(2)
    assert rule.next({"a": [1.0], "b": [1.0, 2.0], "c": []}) == {"a", "c"}
    assert least_repetitions(StudyKeys(name="s", repetitions=2)) == 2


def test_a_narrow_interval_is_enough_and_a_wide_one_is_not():
    asked = StoppingOptions(metric="step_s", width=0.05, minimum=3, maximum=30)
    keys = StudyKeys(name="s", stopping=asked)
    rule = choose_stopping(keys)
    assert (rule.metric, rule.most, least_repetitions(keys)) == ("step_s", 30, 3)
    values = {"steady": STEADY, "noisy": NOISY, "new": []}
    assert rule.next(values) == {"noisy", "new"}
    assert set(rule.reasons(values)) == set(values) and all(rule.reasons(values).values())


def test_the_maximum_ends_it():
    asked = StoppingOptions(metric="step_s", width=0.05, minimum=3, maximum=7)
    assert choose_stopping(StudyKeys(name="s", stopping=asked)).next({"noisy": NOISY}) == set()


def test_a_warm_up_comes_on_top():
    asked = StoppingOptions(metric="step_s", minimum=3, maximum=7, warmup=1)
    keys = StudyKeys(name="s", stopping=asked)
    assert (choose_stopping(keys).most, least_repetitions(keys)) == (8, 4)
    assert choose_stopping(keys).next({"noisy": NOISY}) == {"noisy"}


def test_cells_that_can_no_longer_win_are_not_repeated():
    asked = StoppingOptions(rank_by="step_s", width=0.01, minimum=3, maximum=30)
    rule = choose_stopping(StudyKeys(name="s", stopping=asked))
    values = {"first": STEADY, "close": [v * 1.002 for v in NOISY], "far": [v * 9 for v in STEADY]}
    wanted = rule.next(values)
    assert "far" not in wanted and "close" in wanted
    up = StoppingOptions(rank_by="examples_per_s", highest=True, width=0.01, maximum=30)
    rule = choose_stopping(StudyKeys(name="s", stopping=up))
    assert "first" not in rule.next(values)
