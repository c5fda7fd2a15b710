"""A few `kill -9`, spread over all processes of a run; `make chaos` does hundreds."""

import pytest

from chaos_parts.kills import TARGETS, ranks_trial, trial

pytestmark = [pytest.mark.alone, pytest.mark.long]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("delay_s", [0.0, 0.3, 1.9])
def test_a_killed_run_reads_back(tmp_path, target, delay_s):
    seen = trial(tmp_path, target, delay_s)
    assert seen["complaints"] == []
    assert seen["outcome"] == "killed"


@pytest.mark.parametrize("delay_s", [0.0, 0.2, 0.8])
def test_no_rank_is_left_by_driver_and_launcher(tmp_path, delay_s):
    seen = ranks_trial(tmp_path / "run", "driver and launcher", delay_s)
    assert seen["complaints"] == []
    assert seen["outcome"] == "killed"
