"""`trainload.run` from Python: typed values in, a run out, one line where nothing can start."""

import inspect
from pathlib import Path
from typing import Any

import pytest

import trainload
from trainload.errors import TrainloadError

SMALL = {"frames_fraction": 0.01, "batch_size": 16, "epochs": 1}


def run(tmp_path: Path, **options: Any) -> trainload.Run:
    fake = options.pop("fake", {"step_s": 0.002})
    given = {**SMALL, **options}
    return trainload.run("mlp", framework="fake", out=tmp_path / "runs", fake=fake, **given)


def test_values_reach_the_workload_and_the_run_comes_back(tmp_path: Path) -> None:
    seen: list[Any] = []
    done = run(tmp_path, epochs=2, hidden_units=32, show=seen.append)
    assert done.outcome == "completed" and done.epochs.height == 2
    assert done.manifest.batch_size == 16 and done.manifest.sealed
    assert done.manifest.workload.model_options["hidden_units"] == 32
    assert trainload.load_all(tmp_path / "runs").table()["batch_size"].to_list() == [16]


def test_an_ending_is_an_outcome_and_no_exception(tmp_path: Path) -> None:
    done = run(tmp_path, fake={"crash_at_step": 3, "step_s": 0.001})
    assert done.outcome == "failed" and "crashed" in (done.manifest.outcome_reason or "")


def test_a_script_takes_arguments(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import sys; print(sys.argv[1:])\n")
    pytest.importorskip("torch")
    done = trainload.run(script, arguments=["--lr", "1"], layers=False, out=tmp_path / "runs")
    assert done.outcome == "completed" and "['--lr', '1']" in done.worker_log_tail()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epochs": "3"}, "epochs: expected a whole number, got '3'"),
        ({"epoch": 3}, "did you mean 'epochs'?"),
        ({"batch_size": 0}, "batch_size: 0 must be at least 1"),
        ({"framework": "theano"}, "no such framework; there are torch"),
        ({"setting": "cpu9999"}, "is not available"),
        ({"rate_hz": 0.0}, "must lie between"),
        ({"tegrastats": "/nowhere"}, "no such program or file"),
        ({"what": None}, "name a model or a script"),
        ({"what": "nonesuch"}, "nonesuch"),
    ],
)
def test_wrong_values_are_one_line_and_leave_nothing(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    given = {"what": "mlp", "framework": "fake", "out": tmp_path / "runs", **SMALL, **options}
    with pytest.raises(TrainloadError) as error:
        trainload.run(given.pop("what"), **given)
    assert words in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "runs").exists()


def test_the_room_is_a_module_and_can_be_called() -> None:
    import trainload.run.driver as driver

    assert trainload.run.execute_run is driver.execute_run
    assert "batch_size" not in inspect.signature(trainload.run).parameters
    assert "framework" in inspect.signature(trainload.run).parameters
