"""Running a study: what was done is never done twice, what failed is tried again as asked."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from trainload.api.running import run
from trainload.api.studying import plan, run_study, status, stop
from trainload.cli.app import run_app
from trainload.errors import StudyError, WorkloadError
from trainload.record import load_manifest
from trainload.run.settle import CoolDown, drop_caches, wait_until_settled
from trainload.study import run_cells
from trainload.study.executors import LocalExecutor
from trainload.study.folder import held

QUIET = "cool_down: false\nother_load: false\n"
FAKE = "framework: fake, epochs: 1, frames_fraction: 0.005, check_overhead: false"


def write(folder, factors="hidden_units: [8, 16]", *, fake="{step_s: 0.0}", more="", name="s"):
    path = folder / "study.yaml"
    path.write_text(
        f"name: {name}\nworkload: {{model: mlp, {FAKE}, fake: {fake}}}\n{QUIET}"
        f"factors: {{{factors}}}\n{more}"
    )
    return path


def runs_of(out, name="s"):
    return sorted((out / name / "runs").iterdir())


def test_a_study_runs_its_cells_once(tmp_path):
    file = write(tmp_path, more="repetitions: 2\n")
    first = run_study(file, out=tmp_path)
    assert (first.result.ended_by, first.result.ran) == ("finished", 4)
    assert (first.status.planned, first.status.done, first.status.left_s) == (4, 4, 0.0)
    told = [load_manifest(path).study for path in runs_of(tmp_path)]
    assert {(one.study, one.factors["hidden_units"], one.repetition) for one in told} == {
        ("s", units, number) for units in (8, 16) for number in (0, 1)
    }
    assert run_study(file, out=tmp_path).result.ran == 0

    # Only what is new: a level, then a repetition.
    assert run_study(file, out=tmp_path, words=["hidden_units=8,16,32"]).result.ran == 2
    write(tmp_path, "hidden_units: [8, 16, 32]", more="repetitions: 3\n")
    assert run_study(file, out=tmp_path).result.ran == 3

    # The runs are the truth: without the journal, moved, or with one deleted.
    (tmp_path / "s" / "ledger.jsonl").unlink()
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (tmp_path / "s").rename(moved / "s")
    again = run_study(file, out=moved)
    assert again.result.ran == 0 and len(again.result.mended) == 9
    lost = runs_of(moved)[3]
    for part in lost.iterdir():
        part.unlink()
    assert run_study(file, out=moved).result.ran == 1
    assert not lost.exists() and len(runs_of(moved)) == 9


def test_failed_cells_are_tried_again_and_memory_is_a_result(tmp_path):
    levels = (
        "how: [{level: fine, fake: {step_s: 0.0}}, {level: broken, fake: {crash_at_step: 0}}, "
        "{level: full, fake: {exhaust_memory_at_step: 0}}]"
    )
    file = write(tmp_path, levels, more="retries: 2\nrepetitions: 2\n")
    done = run_study(file, out=tmp_path)
    outcomes = [load_manifest(path).outcome for path in runs_of(tmp_path)]
    assert sorted(outcomes) == ["completed"] * 2 + ["failed"] * 3 + ["out_of_memory"]
    standing = {row.title: row.standing for row in done.status.cells}
    assert standing == {
        "how=fine": "done",
        "how=broken": "failed",
        "how=full": "out_of_memory",
    }
    found = done.status
    assert (found.planned, found.done, found.failed, found.left) == (4, 3, 1, 0)
    assert run_study(file, out=tmp_path).result.ran == 0
    assert "as asked" in next(row.reason for row in found.cells if row.standing == "failed")


def test_a_cell_that_cannot_start_does_not_stop_the_others(tmp_path):
    file = write(tmp_path, more="retries: 1\n")
    made = plan(file, out=tmp_path)

    def run_task(task):
        if task.keywords["hidden_units"] == 8:
            raise WorkloadError("the data are gone")
        return run(**task.keywords, out=task.runs, study=task.place)

    done = run_cells(made.study, made.cells, tmp_path / "s", LocalExecutor(run_task))
    assert (done.ended_by, done.ran) == ("finished", 3)
    endings = {known.ending: known.reason for known in done.state.cells.values()}
    assert endings == {"failed": "the data are gone", None: None}


def test_levels_that_are_not_here_can_be_skipped(tmp_path):
    file = write(tmp_path, "setting: [one, cpu4000, one+gpu77]", more="absent: skip\n")
    made = plan(file, out=tmp_path)
    assert [cell.factors["setting"] for cell in made.cells] == ["one"]
    assert [one.cell.factors["setting"] for one in made.absent] == ["cpu4000", "one+gpu77"]
    assert "core 4000 is not available" in made.absent[0].reason


def test_a_study_over_an_unchanged_script(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import os, sys\nprint(sys.argv[1:], os.environ['WIDTH'], os.environ['MODE'])\n"
    )
    file = tmp_path / "study.yaml"
    file.write_text(
        f"name: s\nworkload:\n  script: {script}\n  arguments: --lr {{lr}} --epochs 3\n"
        "  check_overhead: false\n  layers: false\n  environment: {WIDTH: 'w{width}'}\n"
        f"{QUIET}factors:\n  lr: [0.1, 1e-3]\n  width: [4]\n  environment.MODE: [fast]\n"
    )
    done = run_study(file, out=tmp_path)
    assert done.status.done == 2
    words = {(path / "worker.log").read_text().strip() for path in runs_of(tmp_path)}
    assert words == {
        "['--lr', '0.1', '--epochs', '3'] w4 fast",
        "['--lr', '0.001', '--epochs', '3'] w4 fast",
    }
    manifest = load_manifest(runs_of(tmp_path)[0])
    assert dict(manifest.environment) == {"WIDTH": "w4", "MODE": "fast"}


def test_folds_hold_each_group_out_once(tmp_path):
    file = write(tmp_path, "hidden_units: [8]", more="folds: 3\ndesign: one-at-a-time\n")
    run_study(file, out=tmp_path)
    data = {}
    for path in runs_of(tmp_path):
        manifest = load_manifest(path)
        data[manifest.study.factors.get("fold")] = manifest.data
    held_out = [data[fold].validation_groups for fold in range(3)]
    assert sum(held_out) == data[0].train_groups + data[0].validation_groups
    assert max(held_out) - min(held_out) <= 1


def test_limits_end_a_session_and_the_next_goes_on(tmp_path):
    file = write(tmp_path, "hidden_units: [8, 16, 32]", more="limits: {runs: 2}\n")
    first = run_study(file, out=tmp_path)
    assert (first.result.ended_by, first.result.ran, first.status.left) == ("limit", 2, 1)
    assert first.status.left_s > 0
    assert run_study(file, out=tmp_path).result.ran == 1


def test_repetitions_may_vary_the_seed(tmp_path):
    run_study(write(tmp_path, "hidden_units: [8]", more="repetitions: 2\nvary_seed: true\n"),
              out=tmp_path)  # fmt: skip
    seeds = {load_manifest(path).workload.seeds.weights for path in runs_of(tmp_path)}
    assert seeds == {0, 1}


def test_stopping_repeats_until_it_is_enough(tmp_path):
    more = "stopping: {metric: train_loss, width: 0.5, minimum: 3, maximum: 3, warmup: 1}\n"
    file = write(tmp_path, "hidden_units: [8]", more=more)
    done = run_study(file, out=tmp_path)
    # The fake's losses are all equal, which below six says nothing: it goes to the maximum.
    assert done.result.ran == 4 and done.status.planned == 4 and done.status.left == 0
    assert all(row.reason for row in done.status.cells)
    more = "stopping: {metric: energy_jj}\n"
    with pytest.raises(StudyError, match=r"study.yaml:6: stopping: the run .* no figure energy_jj"):
        run_study(write(tmp_path, "hidden_units: [8]", more=more, name="t"), out=tmp_path)


def start_study(file, out, *words):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "trainload", "study", "run", str(file), "--out", str(out)]
    return subprocess.Popen(
        [*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment,
    )  # fmt: skip


def wait_for_running(folder, seconds=30.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if (folder / "cells.jsonl").exists() and status(folder).running:
            return
        time.sleep(0.05)
    raise AssertionError("the study did not start")


def test_ctrl_c_leaves_a_record_and_the_same_command_goes_on(tmp_path):
    file = write(tmp_path, fake="{hang_at_step: 0}")
    process = start_study(file, tmp_path)
    wait_for_running(tmp_path / "s")
    with pytest.raises(StudyError, match="another process runs this study"), held(tmp_path / "s"):
        pass
    time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "interrupted; the same command goes on" in out
    assert "Traceback" not in err
    assert [load_manifest(path).outcome for path in runs_of(tmp_path)] == ["interrupted"]
    write(tmp_path)  # cells that do not hang have other content: they are others
    assert run_study(file, out=tmp_path).result.ran == 2


def test_ctrl_c_while_it_waits_for_quiet(tmp_path):
    more = "cool_down: {load_fraction: 1.0e-9, limit_s: 120}\n"
    file = write(tmp_path)
    file.write_text(file.read_text().replace("cool_down: false\n", more))
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            process = start_study(file, tmp_path)
            deadline = time.monotonic() + 30
            while not (tmp_path / "s" / "ledger.jsonl").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            busy.kill()
    assert process.returncode == 1 and "interrupted; the same command goes on" in out
    assert "Traceback" not in err and runs_of(tmp_path) == []
    found = status(tmp_path / "s")
    assert (found.planned, found.done, found.running) == (2, 0, 0)


def test_stop_finishes_the_running_cell(tmp_path, capsys):
    file = write(tmp_path, fake="{step_s: 1.5}")
    assert not (tmp_path / "s").exists()
    process = start_study(file, tmp_path)
    wait_for_running(tmp_path / "s")
    assert stop(tmp_path / "s")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1 and "stopped as asked" in out
    assert [load_manifest(path).outcome for path in runs_of(tmp_path)] == ["completed"]
    assert run_app(["study", "stop", str(tmp_path / "s")]) == 1
    assert run_app(["study", "status", str(tmp_path / "s"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out.partition("\n")[2])
    assert {"planned", "done", "failed", "running", "left_s"} <= set(found)
    assert (found["planned"], found["done"], found["running"]) == (2, 1, 0)
    assert run_study(file, out=tmp_path).result.ran == 1


def test_the_verbs_print(tmp_path, capsys):
    file = write(tmp_path)
    assert run_app(["study", "plan", str(file), "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "2 cells × 1 repetitions = 2 runs, 0 done" in said and "energy: not known" in said
    assert run_app(["study", "run", str(file), "--out", str(tmp_path), "--quiet"]) == 0
    assert "2 of 2 runs done" in capsys.readouterr().out
    assert run_app(["study", "watch", str(tmp_path / "s")]) == 0
    assert run_app(["study", "status", str(tmp_path / "s")]) == 0
    assert run_app(["study", "list"]) == 0
    said = capsys.readouterr().out
    assert "hidden_units=16" in said and "load-analysis" in said
    assert run_app(["study", "status", str(tmp_path)]) == 2
    assert "is no folder of a study" in capsys.readouterr().err


def test_what_cannot_fit_is_said_before(tmp_path):
    file = write(tmp_path, "hidden_units: [8, 400000]", more="unfit: skip\n")
    made = plan(file, out=tmp_path)
    assert [cell.factors["hidden_units"] for cell in made.unfit] == [400000]
    assert [cell.factors["hidden_units"] for cell in made.cells] == [8]


def test_the_machine_settles_between_runs(tmp_path):
    loads = iter([0.9, 0.5, 0.1])
    said = []
    found = wait_until_settled(CoolDown(limit_s=60), load=lambda _s: next(loads), tell=said.append)
    assert found.in_time and found.load_fraction == 0.1 and found.words is None
    assert (
        len(said) == 2 and "load 90.0 %, 25.0 % asked" in said[0] and "of at most 1 min" in said[0]
    )
    warm = replace(CoolDown(limit_s=60), temperature_celsius=60.0)
    degrees = iter([80.0, 61.0, 55.0])
    found = wait_until_settled(
        warm, load=lambda _s: 0.0, temperature=lambda: next(degrees), tell=said.append
    )
    assert "quiet machine: 61 °C, 60 °C asked" in said[-1]
    assert found.in_time and found.temperature_celsius == 55.0
    found = wait_until_settled(CoolDown(limit_s=0.01), load=lambda _s: time.sleep(0.02) or 0.9)
    assert not found.in_time and "at load 90" in found.words
    caches = tmp_path / "drop_caches"
    drop_caches(caches)
    assert caches.read_text() == "3\n"
    with pytest.raises(StudyError, match="drop_caches"):
        drop_caches(Path("/proc/version"))
