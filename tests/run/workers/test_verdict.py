"""How an ending becomes an outcome."""

import pytest

from trainload.hardware import CgroupLimits
from trainload.run.workers.verdict import Ending, decide_outcome, read_oom_kills
from trainload_worker.protocol.events import End
from trainload_worker.protocol.outcomes import EXIT_EVENTS_LOST

COMPLETED = End("completed")


@pytest.mark.parametrize(
    ("ending", "outcome", "words"),
    [
        (Ending(exit_status=0, end_event=COMPLETED), "completed", None),
        (Ending(exit_status=0, end_event=None), "failed", "no last word"),
        (Ending(exit_status=0, end_event=None, program_began=True), "completed", None),
        (
            Ending(exit_status=4, end_event=COMPLETED, program_began=True),
            "failed",
            "status 4 after",
        ),
        (Ending(exit_status=1, end_event=None, last_log_line="boom"), "failed", "boom"),
        (Ending(exit_status=-9, end_event=None), "killed", "SIGKILL"),
        (Ending(exit_status=-9, end_event=None, oom_kills=1), "out_of_memory", "want of memory"),
        (Ending(exit_status=-11, end_event=None), "failed", "SIGSEGV"),
        (Ending(exit_status=-50, end_event=None), "failed", "signal 50"),
        (Ending(exit_status=EXIT_EVENTS_LOST, end_event=None), "failed", "disk full"),
        (
            Ending(exit_status=3, end_event=End("out_of_memory", reason="no room")),
            "out_of_memory",
            "no room",
        ),
        (
            Ending(exit_status=-15, end_event=None, stopped_by="timed_out", stop_reason="late"),
            "timed_out",
            "late",
        ),
        (
            Ending(exit_status=0, end_event=COMPLETED, stopped_by="timed_out", stop_reason="late"),
            "completed",
            None,
        ),
        (
            Ending(exit_status=0, end_event=COMPLETED, sampler_deaths=("the sampler died",)),
            "killed",
            "the training finished, but the sampler died",
        ),
        (Ending(exit_status=0, end_event=COMPLETED, lost_samples=3), "failed", "3 samples"),
        (
            Ending(exit_status=0, end_event=End("completed", events_lost=2)),
            "failed",
            "2 events",
        ),
        (
            Ending(exit_status=130, end_event=End("interrupted", reason="SIGTERM")),
            "interrupted",
            "SIGTERM",
        ),
    ],
)
def test_outcomes(ending, outcome, words):
    decided, reason = decide_outcome(ending)
    assert decided == outcome
    assert reason is None if words is None else words in reason


def test_oom_kills_are_counted_where_the_kernel_counts_them(tmp_path):
    limits = CgroupLimits(
        version="v2", memory_path=tmp_path, cpu_path=None, cpuacct_path=None,
        memory_limit_bytes=None, cpu_quota_cores=None,
    )  # fmt: skip
    assert read_oom_kills(limits, tmp_path) is None
    (tmp_path / "vmstat").write_text("nr_free_pages 5\noom_kill 2\n")
    (tmp_path / "memory.events").write_text("low 0\noom_kill 1\n")
    assert read_oom_kills(limits, tmp_path) == 3
