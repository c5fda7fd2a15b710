"""What a measured difference says of a suggestion."""

from dataclasses import replace

import pytest

from trainload.recommend.here import (
    Difference,
    Level,
    Suggestion,
    Trial,
    apply_past,
    judge_trial,
    not_measured,
)

CHANGE = Trial(
    factor="precision", base=Level(label="float32"), other=Level(label="bf16"), keeps=False
)
KEEP = replace(CHANGE, keeps=True)


def difference(rate, low, high, *, shown=None):
    return Difference(
        rate=rate, low=low, high=high, shown=low > 0 or high < 0 if shown is None else shown, runs=8
    )


@pytest.mark.parametrize(
    ("trial", "found", "verdict", "words"),
    [
        (CHANGE, difference(1.0, 0.8, 1.2), "confirmed", "against float32"),
        (CHANGE, difference(-0.5, -0.6, -0.4), "withdrawn", "float32 is faster"),
        (CHANGE, difference(0.0, -0.01, 0.01), "withdrawn", "saves less than 2 %"),
        (CHANGE, difference(0.1, -0.1, 0.3), "not decided", "no difference to float32"),
        (KEEP, difference(-0.5, -0.6, -0.4), "confirmed", "against bf16"),
        (KEEP, difference(1.0, 0.8, 1.2), "withdrawn", "bf16 saves 50.0 %"),
        (KEEP, difference(0.0, -0.01, 0.01), "confirmed", "bf16 saves less than 2 %"),
        (KEEP, difference(0.0, -0.2, 0.2), "not decided", "no difference to bf16"),
    ],
)
def test_verdicts(trial, found, verdict, words):
    tried = judge_trial(trial, found)
    assert tried.verdict == verdict and words in tried.reason
    assert tried.low <= tried.gain <= tried.high and tried.runs == 8


def test_gains_are_shares_of_the_time():
    tried = judge_trial(CHANGE, difference(1.0, 0.25, 3.0))
    assert (tried.gain, tried.low, tried.high) == pytest.approx((0.5, 0.2, 0.75))
    kept = judge_trial(KEEP, difference(-0.4, -0.5, -0.3))
    assert (kept.gain, kept.low, kept.high) == pytest.approx((0.4, 0.3, 0.5))
    assert not_measured("why").gain is None and not_measured("why").verdict == "not decided"


def test_past_runs_tell_a_gain_only_where_they_show_a_difference():
    plain = Suggestion(
        topic="precision", advice="bf16", option=None, gain=None, basis="not known", trial=CHANGE
    )
    told = apply_past(plain, difference(1.0, 0.6, 1.5), "runs")
    assert told.gain == pytest.approx(0.5)
    assert told.basis == "8 runs in runs against float32: 37.5 % to 60.0 %"
    assert apply_past(plain, difference(0.1, -0.1, 0.3), "runs") is plain
    worse = apply_past(plain, difference(-0.2, -0.3, -0.1), "runs")
    assert worse.gain == pytest.approx(-0.25) and worse.basis.startswith("it costs 25.0 %")
    assert apply_past(replace(plain, trial=KEEP), difference(-0.2, -0.3, -0.1), "r").gain == 0.0
