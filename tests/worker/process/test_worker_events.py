"""The event writer, on a good disk and on a full one."""

import json
import os
import subprocess
import sys
from pathlib import Path

from worker_specs import SOURCE_FOLDER

from trainload_worker.process.events import EventWriter
from trainload_worker.protocol.events import EpochDone, PhaseEdge


def test_numbers_that_are_none_become_null(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    events = EventWriter(str(path))
    scores = {"accuracy": float("inf"), "top_n": {"3": 0.5}}
    assert events.write(EpochDone(0, 1.0, 2.0, train_loss=float("nan"), validation=scores))
    events.close()
    written = json.loads(path.read_text())
    assert written["kind"] == "epoch" and written["train_loss"] is None
    assert written["validation"] == {"accuracy": None, "top_n": {"3": 0.5}}


def test_lines_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for name in ("a", "b"):
        events = EventWriter(str(path))
        events.write(PhaseEdge(name, "begin", 1.0))
        events.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["kind"], line["name"]) for line in lines] == [("phase", "a"), ("phase", "b")]


def test_a_descriptor_that_another_file_has_is_left_alone(tmp_path: Path) -> None:
    path, other = tmp_path / "events.jsonl", tmp_path / "other"
    events = EventWriter(str(path))
    events.write(PhaseEdge("a", "begin", 1.0))
    with other.open("wb") as file:
        os.dup2(file.fileno(), events._descriptor)
        taken = events._descriptor
        assert events.write(PhaseEdge("b", "begin", 2.0)) and events._descriptor != taken
        os.close(events._descriptor)
        assert events.write(PhaseEdge("c", "begin", 3.0)) and events.lost_count == 0
        events.close()
        os.close(taken)  # still open: it was not ours to close
    assert other.read_bytes() == b""
    assert [json.loads(line)["name"] for line in path.read_text().splitlines()] == ["a", "b", "c"]
    assert not events.write(PhaseEdge("d", "begin", 4.0)) and path.read_text().count("\n") == 3


FULL_DISK = """
import resource, signal, sys
from trainload_worker.process.events import EventWriter
from trainload_worker.protocol.events import End, OpTraceStep
events = EventWriter(sys.argv[1])
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
answers = [events.write(OpTraceStep(n, t_s=1 / 3)) for n in range(4)]
resource.setrlimit(resource.RLIMIT_FSIZE, (10000, hard))
answers.append(events.write(OpTraceStep(4)))
answers.append(events.write(End("completed", events_lost=events.lost_count)))
assert answers == [True, False, False, False, True, True], answers
"""


def test_a_full_disk_loses_lines_and_damages_one_at_most(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)],
        env={"PYTHONPATH": str(SOURCE_FOLDER)},
        check=True,
    )
    good, damaged = [], 0
    for line in path.read_text().splitlines():
        try:
            good.append(json.loads(line))
        except ValueError:
            damaged += 1
    assert damaged == 1
    assert [event.get("step") for event in good] == [0, 4, None]
    assert good[-1]["kind"] == "end" and good[-1]["events_lost"] == 3


def test_a_forked_process_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    text = (
        "import os, sys\n"
        "from trainload_worker.process.events import EventWriter\n"
        "events = EventWriter(sys.argv[1])\n"
        "child = os.fork()\n"
        "name = 'child' if child == 0 else 'parent'\n"
        "from trainload_worker.protocol.events import PhaseEdge\n"
        "events.write(PhaseEdge(name, 'begin', 1.0))\n"
        "os._exit(0) if child == 0 else os.waitpid(child, 0)\n"
    )
    command = [sys.executable, "-c", text, str(path)]
    subprocess.run(command, check=True, timeout=30, env={"PYTHONPATH": str(SOURCE_FOLDER)})
    assert json.loads(path.read_text())["name"] == "parent"


def test_after_the_end_no_other_file_is_written_to(tmp_path: Path) -> None:
    events = EventWriter(str(tmp_path / "events.jsonl"))
    events.close()
    with (tmp_path / "other").open("w"):  # takes the number that has become free
        assert not events.write(PhaseEdge("late", "end", 1.0))
    assert (tmp_path / "other").read_text() == ""
    events.close()
