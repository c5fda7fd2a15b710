"""The worker as a process: good runs, every misbehaviour, signals, a dead driver, a full disk."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worker_specs import (
    SOURCE_FOLDER,
    all_steps,
    load_events,
    make_graph,
    make_spec,
    run_worker,
    spawn_worker,
)


def wait_for(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    until_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until_s, "waited in vain"
        time.sleep(0.02)


def has_event(document: dict[str, Any], kind: str) -> bool:
    path = Path(document["events_path"])
    return path.exists() and f'"kind":"{kind}"' in path.read_text()


def last_event(document: dict[str, Any]) -> dict[str, Any]:
    return load_events(document)[-1]


def test_a_run_tells_its_whole_story(tmp_path: Path) -> None:
    document = make_spec(tmp_path)
    before_s = time.monotonic()
    code, _ = run_worker(document)
    after_s = time.monotonic()
    assert code == 0
    events = load_events(document)
    kinds = [event["kind"] for event in events]
    assert kinds[:4] == ["hello", "setting", "phase", "data"]
    assert kinds[-2:] == ["phase", "end"]
    data = next(event for event in events if event["kind"] == "data")
    ends, losses = all_steps(events)
    assert len(ends) == len(losses) == data["total_steps"] == 2 * data["steps_per_epoch"]
    assert [before_s, *ends, after_s] == sorted([before_s, *ends, after_s])
    assert sum(data["validation_class_counts"].values()) == data["validation_rows"]
    model = next(event for event in events if event["kind"] == "model")
    assert model["parameters"] == 75 * 16 + 16 + 16 * 10 + 10
    phases = [(e["name"], e["edge"]) for e in events if e["kind"] == "phase"]
    expected = [(name, edge) for name in ("prepare", "build", "train") for edge in ("begin", "end")]
    assert phases == expected
    assert events[-1]["outcome"] == "completed"
    assert events[-1]["reason"] is None
    assert events[-1]["events_lost"] == 0


def test_steps_are_contiguous_and_never_span_a_validation(tmp_path: Path) -> None:
    document = make_spec(tmp_path, fake={"step_s": 0.05})
    run_worker(document)
    events = load_events(document)
    next_step = 0
    for epoch in (0, 1):
        lines = [e for e in events if e["kind"] == "steps" and e["epoch"] == epoch]
        summary = next(e for e in events if e["kind"] == "epoch" and e["epoch"] == epoch)
        assert len(lines) > 1
        assert lines[0]["start_s"] == summary["start_s"]
        assert lines[-1]["end_s"][-1] == summary["end_s"] <= summary["validation_start_s"]
        previous_s = summary["start_s"]
        for line in lines:
            assert (line["first_step"], line["start_s"]) == (next_step, previous_s)
            next_step += len(line["end_s"])
            previous_s = line["end_s"][-1]
        assert summary["steps"] == sum(len(line["end_s"]) for line in lines)
        assert 0 < summary["validation"]["f1_macro"] <= 1


def test_max_steps_cuts_an_epoch_short(tmp_path: Path) -> None:
    document = make_spec(tmp_path, training={"max_steps": 15})
    assert run_worker(document)[0] == 0
    events = load_events(document)
    assert len(all_steps(events)[0]) == 15
    assert [e["steps"] for e in events if e["kind"] == "epoch"] == [13, 2]


def test_the_setting_obtained_is_told(tmp_path: Path) -> None:
    core = max(os.sched_getaffinity(0))
    setting = {"cores": [core], "threads": 3, "accelerators": ["GPU-1"]}
    document = make_spec(tmp_path, setting=setting)
    run_worker(document)
    obtained = load_events(document)[1]["obtained"]
    assert obtained["cores"] == [core]
    assert obtained["threads"] == 3
    assert any("no accelerator" in note for note in obtained["notes"])


def test_refused_cores_are_noted(tmp_path: Path) -> None:
    document = make_spec(tmp_path, setting={"cores": [100000], "threads": 1})
    assert run_worker(document)[0] == 0
    notes = load_events(document)[1]["obtained"]["notes"]
    assert any("100000" in note for note in notes)


def test_a_crash_keeps_the_steps_before_it(tmp_path: Path) -> None:
    document = make_spec(tmp_path, fake={"crash_at_step": 5})
    code, output = run_worker(document)
    assert code == 1
    assert len(all_steps(load_events(document))[0]) == 5
    end = last_event(document)
    assert end["outcome"] == "failed"
    assert end["reason"].startswith("RuntimeError: the fake backend crashed at step 5")
    assert "(train, frameworks/fake/backend.py line" in end["reason"]
    assert b"Traceback" in output


def test_exhausted_memory_is_an_outcome(tmp_path: Path) -> None:
    document = make_spec(tmp_path, fake={"exhaust_memory_at_step": 4})
    code, _ = run_worker(document)
    assert code == 3
    assert len(all_steps(load_events(document))[0]) == 4
    assert last_event(document)["outcome"] == "out_of_memory"
    assert last_event(document)["reason"].startswith("MemoryError (train")


def test_a_segmentation_fault_is_real(tmp_path: Path) -> None:
    document = make_spec(tmp_path, fake={"segfault_at_step": 3})
    assert run_worker(document)[0] == -signal.SIGSEGV
    assert last_event(document)["kind"] != "end"


def test_a_loss_that_is_not_a_number_is_null(tmp_path: Path) -> None:
    document = make_spec(tmp_path, fake={"nan_at_step": 2})
    assert run_worker(document)[0] == 0
    events = load_events(document)
    assert [at for at, loss in enumerate(all_steps(events)[1]) if loss is None] == [2]
    assert [e["train_loss"] is None for e in events if e["kind"] == "epoch"] == [True, False]


def test_garbage_goes_to_the_log_alone(tmp_path: Path) -> None:
    document = make_spec(tmp_path, fake={"print_garbage": True})
    code, output = run_worker(document)
    assert code == 0
    assert b"\xff\xfe" in output
    assert last_event(document)["outcome"] == "completed"


def test_a_busy_step_burns_the_processor(tmp_path: Path) -> None:
    document = make_spec(tmp_path, fake={"busy": True, "step_s": 0.05})
    process = spawn_worker(document)
    assert process.stdout is not None
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    steps = len(all_steps(load_events(document))[0])
    assert usage.ru_utime + usage.ru_stime > 0.5 * 0.05 * steps


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_after_the_step(tmp_path: Path, number: signal.Signals) -> None:
    document = make_spec(tmp_path, training={"epochs": 1000}, fake={"step_s": 0.01})
    process = spawn_worker(document)
    wait_for(lambda: has_event(document, "steps"))
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == 130
    end = last_event(document)
    assert (end["outcome"], end["reason"]) == ("interrupted", number.name)
    events = load_events(document)
    data = next(event for event in events if event["kind"] == "data")
    assert 0 < len(all_steps(events)[0]) < data["total_steps"]


def test_a_hanging_step_is_abandoned_after_a_signal(tmp_path: Path) -> None:
    document = make_spec(tmp_path, fake={"hang_at_step": 20})
    process = spawn_worker(document)
    wait_for(lambda: has_event(document, "epoch"))
    time.sleep(1.0)
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == 130
    assert len(all_steps(load_events(document))[0]) == 20
    assert last_event(document)["reason"] == "SIGTERM"


def test_a_stubborn_hang_needs_a_kill(tmp_path: Path) -> None:
    document = make_spec(tmp_path, fake={"hang_at_step": 20, "stubborn": True})
    process = spawn_worker(document)
    wait_for(lambda: has_event(document, "epoch"))
    time.sleep(1.0)
    process.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.kill()
    process.communicate(timeout=20)
    assert process.returncode == -signal.SIGKILL


def test_a_signal_while_the_data_are_made_is_heeded(tmp_path: Path) -> None:
    document = make_spec(tmp_path)
    document["data"]["class_counts"] = {"A": 500_000, "B": 500_000}
    document["graph"] = make_graph(classes=2)
    process = spawn_worker(document)
    wait_for(lambda: has_event(document, "phase"))
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == 130
    assert not has_event(document, "data")
    assert last_event(document)["outcome"] == "interrupted"


DRIVER = """
import json, os, subprocess, sys
document = json.load(open(sys.argv[1]))
document["parent_pid"] = os.getpid()
worker = subprocess.Popen([sys.executable, "-m", "trainload_worker"], stdin=subprocess.PIPE)
worker.stdin.write(json.dumps(document).encode())
worker.stdin.close()
worker.wait()
"""


def test_the_worker_ends_when_its_driver_is_killed(tmp_path: Path) -> None:
    document = make_spec(tmp_path, training={"epochs": 10000})
    (tmp_path / "spec.json").write_text(json.dumps(document))
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path / "spec.json")],
        env={"PYTHONPATH": str(SOURCE_FOLDER)},
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: has_event(document, "steps"))
    driver.kill()
    driver.wait()
    wait_for(lambda: has_event(document, "end"))
    end = last_event(document)
    assert (end["outcome"], end["reason"]) == ("interrupted", "the driver died")


def test_a_driver_dead_before_the_start_is_noticed(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    document = make_spec(tmp_path, parent_pid=gone.pid)
    assert run_worker(document)[0] == 130
    assert last_event(document)["reason"] == "the driver died"


def limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))


def test_a_full_disk_does_not_stop_the_training(tmp_path: Path) -> None:
    document = make_spec(tmp_path)
    code, output = run_worker(document, preexec_fn=limit_files)
    assert code == 74
    assert b"the end of the run (completed) could not be recorded" in output


def test_events_that_cannot_be_opened_are_told(tmp_path: Path) -> None:
    document = make_spec(tmp_path / "nowhere")
    code, output = run_worker(document)
    assert code == 74
    assert len(output.decode().splitlines()) == 1


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"framework": "abacus"}, "framework 'abacus' is unknown"),
        ({"graph": make_graph(features=70)}, "layer input takes 70 features, the data have 75"),
        ({"graph": make_graph(classes=9)}, "layer output gives shape [9], the data have 10"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(
    tmp_path: Path, changes: dict[str, Any], complaint: str
) -> None:
    document = make_spec(tmp_path)
    document.update(changes)
    code, output = run_worker(document)
    assert code == 1
    assert complaint in last_event(document)["reason"]
    assert b"Traceback" not in output


def test_a_single_group_fails_in_one_line(tmp_path: Path) -> None:
    document = make_spec(tmp_path, graph=make_graph(classes=1))
    document["data"]["class_counts"] = {"A": 1}
    code, _ = run_worker(document)
    assert code == 1
    assert "1 group" in last_event(document)["reason"]
