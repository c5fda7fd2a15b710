"""A few `kill -9`, spread over the three processes; the bench does hundreds."""

import pytest

from kill_chaos import TARGETS, trial


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("delay_s", [0.0, 0.3, 1.9])
def test_a_killed_run_reads_back(tmp_path, target, delay_s):
    seen = trial(tmp_path, target, delay_s)
    assert seen["complaints"] == []
    assert seen["outcome"] == "killed"
