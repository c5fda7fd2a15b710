"""A real worker measures this machine: what it says is kept, what it lacks is told."""

import pytest

from trainload.errors import WorkerError
from trainload.hardware.limits import load_limits, save_limits
from trainload.run import find_interpreter
from trainload.run.measuring import MeasureRequest, measure_machine


def test_programs_run_in_a_worker_and_their_figures_travel(tmp_path):
    shown = []
    request = MeasureRequest(
        python=find_interpreter("torch", None),
        programs=("cache-bandwidth", "nothing"),
        quick=True,
        folder=tmp_path,
    )
    found = measure_machine(request, shown.append)
    told = {one.program for one in (*found.measured, *found.lacks)}
    assert told == {"cache-bandwidth", "nothing"}
    assert found.why_missing("nothing") == "this worker has no program nothing"
    assert found.facts["cores"].isdecimal() and found.software["torch"]
    assert shown and "measuring this machine" in shown[0]
    assert list(tmp_path.iterdir()) == []
    save_limits(found, tmp_path / "limits.json")
    assert load_limits(tmp_path / "limits.json") == found


def test_a_worker_that_cannot_start_is_an_error_in_a_line(tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no python here\nexit 9\n")
    broken.chmod(0o755)
    with pytest.raises(WorkerError, match="not measured: no python here"):
        measure_machine(MeasureRequest(python=str(broken), programs=("drive-read",)))
