"""Cells in Slurm: a real one where it starts, and recorded words of its commands everywhere."""

import json
import os
import stat
import sys
import time
from pathlib import Path

import pytest

from study_ray import start, write_study
from study_slurm import NoSlurm, slurm
from trainload.api.studying import run_study, status
from trainload.cli.app import run_app
from trainload.errors import StudyError
from trainload.record import StudyCell, load_manifest
from trainload.report.study import render_line
from trainload.study.executors import Task
from trainload.study.executors.slurm import SlurmExecutor
from trainload.study.executors.slurm_queue import array_script, see_queue, submit_batch
from trainload.study.ledger import read_ledger


@pytest.fixture(scope="module")
def real():
    try:
        with slurm() as folder:
            yield folder
    except NoSlurm as error:
        pytest.skip(f"no Slurm here: {error}")


def wait_for(what, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)
    return found


def counted(folder):
    ended, _, _ = read_ledger(folder)
    return sorted(one.cell for one in ended.values() if one.verdict == "counted")


@pytest.mark.long
def test_a_killed_submitter_loses_nothing_in_a_real_slurm(tmp_path, real):
    more = "retries: 0\n"
    file = write_study(tmp_path, 3, 1.0, more)
    text = file.read_text().replace("workload:\n", "workload:\n  resources: {board: 1}\n")
    file.write_text(text)
    folder = tmp_path / "s"
    process = start(file, tmp_path, "slurm", "--quiet")
    wait_for(lambda: (folder / "cells.jsonl").exists() and status(folder).queued >= 2)
    process.kill()
    process.communicate()
    found = status(folder)
    assert found.queued + found.running >= 1 and "queued" in render_line(found)
    batches = [path.name for path in (folder / "slurm").iterdir()]
    again = start(file, tmp_path, "slurm")
    out, err = again.communicate(timeout=120)
    assert again.returncode == 0 and "3 of 3 runs done" in out, err
    # Taken up where they were: no second array job, no cell twice.
    assert [path.name for path in (folder / "slurm").iterdir()] == batches
    assert len(counted(folder)) == 3 == len(set(counted(folder)))
    runs = list((folder / "runs").iterdir())
    assert all(load_manifest(path).outcome == "completed" for path in runs) and len(runs) == 3
    third = start(file, tmp_path, "slurm", "--json")
    assert json.loads(third.communicate(timeout=60)[0])["ran"] == 0


FAKE = """#!{python}
import json, os, sys
words = sys.argv[1:]
name = os.path.basename(sys.argv[0])
with open({log!r}, "a") as log:
    log.write(json.dumps([name, *words]) + chr(10))
if os.path.exists({down!r}):
    sys.exit(name + ": error: Unable to contact slurm controller (connect failure)")
if name == "sbatch":
    print(4711)
if name == "squeue":
    print(open({queue!r}).read(), end="")
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Commands that note how they are called; squeue prints what a file says."""
    log, queue, down = tmp_path / "calls", tmp_path / "queue", tmp_path / "down"
    queue.touch()
    commands = tmp_path / "bin"
    commands.mkdir()
    text = FAKE.format(python=sys.executable, log=str(log), queue=str(queue), down=str(down))
    for name in ("sbatch", "squeue", "scancel"):
        (commands / name).write_text(text)
        (commands / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    return log, queue, down


def calls(log, name):
    found = [json.loads(line) for line in log.read_text().splitlines()]
    return [words[1:] for words in found if words[0] == name]


def task(folder, cell, **more):
    place = StudyCell(study="s", cell=cell, factors={"cell": cell})
    keywords = {"what": "mlp", "framework": "fake", **more.pop("keywords", {})}
    return Task(place=place, keywords=keywords, runs=folder / "runs", **more)


def executor(folder, *options):
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    return SlurmExecutor(
        folder, options, load=lambda path: path, tell=lambda _text: None, look_s=0.0, unseen_s=0.0
    )


def batch_of(log):
    return Path(calls(log, "sbatch")[-1][-1]).parent


def test_an_array_job_for_each_need_with_the_users_options(tmp_path, fake):
    log, queue, _ = fake
    folder = tmp_path / "s"
    there = executor(folder, "--partition=gpu", "--time=10")
    begun = []
    there.submit(task(folder, "a"), lambda: begun.append("a"))
    there.submit(task(folder, "b"), lambda: begun.append("b"))
    there.submit(
        task(folder, "c", resources={"board": 2}, keywords={"setting": "all+gpu0-1"}),
        lambda: begun.append("c"),
    )
    there._submit_fresh()
    asked = calls(log, "sbatch")
    assert [words[:-1] for words in asked] == [["--parsable", "--partition=gpu", "--time=10"]] * 2
    scripts = [Path(words[-1]).read_text() for words in asked]
    assert "#SBATCH --array=0-1\n" in scripts[0] and "--gres" not in scripts[0]
    assert "#SBATCH --array=0-0\n" in scripts[1] and "--gres=board:2,gpu:2\n" in scripts[1]
    assert all("#SBATCH --exclusive\n" in text for text in scripts)
    first = Path(asked[0][-1]).parent.name
    queue.write_text(f"{first}|0|RUNNING\n{first}|1|PENDING\nanother|3|RUNNING\nodd line\n")
    states = {key: state for key, (_, state) in see_queue(folder).items()}
    assert states == {("a", 0): "RUNNING", ("b", 0): "PENDING"}
    # What Slurm no longer has and left nothing is lost; what runs has begun.
    (lost,) = there.collect(0.0)
    assert lost.lost and lost.task.place.cell == "c" and begun == ["a"]


def test_what_slurm_has_is_taken_up_and_what_is_done_is_filed(tmp_path, fake):
    log, queue, _ = fake
    folder = tmp_path / "s"
    there = executor(folder)
    for cell in "abc":
        there.submit(task(folder, cell), lambda: None)
    there._submit_fresh()
    batch = batch_of(log)
    queue.write_text(f"{batch.name}|1|PENDING\n")
    # The first task was killed after it had named its run and before it was renamed.
    (batch / "arriving-0" / "runs" / "run-a").mkdir(parents=True)
    (batch / "0.done").write_text("run-a")
    again = executor(folder)
    assert (folder / "runs" / "run-a").is_dir()
    again.submit(task(folder, "b"), lambda: None)
    again.submit(task(folder, "c"), lambda: None)
    assert again.collect(0.0) == []
    assert (
        len(calls(log, "sbatch")) == 2
        and '"cell": "c"' in (batch_of(log) / "tasks.jsonl").read_text()
    )
    queue.write_text("")
    (batch / "1.problem").write_text("no such data")
    batch_c = batch_of(log)
    (batch_c / "0.log").write_text("x\nslurmstepd: error: *** JOB 3 CANCELLED DUE TO TIME LIMIT\n")
    found = {one.task.place.cell: one for one in (*again.collect(0.0), *again.collect(4.0))}
    assert (found["b"].problem, found["b"].lost) == ("no such data", False)
    assert "TIME LIMIT" in found["c"].problem and not found["c"].lost


def test_stopping_takes_back_what_waits(tmp_path, fake):
    log, queue, down = fake
    folder = tmp_path / "s"
    there = executor(folder)
    for cell in "ab":
        there.submit(task(folder, cell), lambda: None)
    there._submit_fresh()
    batch = batch_of(log)
    queue.write_text(f"{batch.name}|0|RUNNING\n")
    there.cancel(running=False)
    (back,) = there.collect(0.0)
    assert (back.task.place.cell, back.begun) == ("b", False)
    (words,) = calls(log, "scancel")
    assert "--state=PENDING" in words and f"--jobname={batch.name}" in words
    down.touch()
    assert there.collect(0.0) == []  # a controller that is away says nothing of the tasks
    with pytest.raises(StudyError, match="--on slurm: error: Unable to contact slurm controller"):
        executor(folder)
    with pytest.raises(StudyError, match="sbatch refused: error: Unable to contact"):
        submit_batch(folder, [task(folder, "z")], ())


def test_the_script_is_what_a_task_runs(tmp_path, fake):
    """The array's script, run as Slurm would, files the run of its index."""
    import subprocess

    log, queue, _ = fake
    file = write_study(tmp_path, 2, 0.0)
    folder = tmp_path / "s s"
    (folder / "runs").mkdir(parents=True)
    keywords = {"epochs": 1, "frames_fraction": 0.005, "check_overhead": False}
    tasks = [task(folder, cell, keywords=keywords) for cell in "ab"]
    submit_batch(folder, tasks, ())
    batch = batch_of(log)
    variables = {**os.environ, "SLURM_ARRAY_TASK_ID": "1"}
    subprocess.run(["bash", str(batch / "array.sh")], env=variables, check=True)
    (run,) = (folder / "runs").iterdir()
    assert load_manifest(run).study.cell == "b"
    assert (batch / "1.done").read_text() == run.name and not (batch / "arriving-1").exists()
    assert array_script(batch, tasks) == (batch / "array.sh").read_text()
    # What is in the queue is not run here beside it.
    queue.write_text(f"{batch.name}|0|PENDING\n")
    folder.rename(tmp_path / "s")
    with pytest.raises(StudyError, match="1 runs are in Slurm; go on with --on slurm"):
        run_study(file, out=tmp_path)
    queue.write_text("")
    assert run_study(file, out=tmp_path).status.queued == 0


def test_without_slurm_one_line_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    file = write_study(tmp_path, 1, 0.0)
    assert run_app(["study", "run", str(file), "--out", str(tmp_path), "--on", "slurm"]) == 2
    assert "--on slurm: no command sbatch here; submit from a login" in capsys.readouterr().err
