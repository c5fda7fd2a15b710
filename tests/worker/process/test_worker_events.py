"""The event writer, on a good disk and on a full one."""

import json
import subprocess
import sys
from pathlib import Path

from worker_specs import SOURCE_FOLDER

from trainload_worker.process.events import EventWriter


def test_numbers_that_are_none_become_null(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    events = EventWriter(str(path))
    assert events.write("steps", loss=[1.5, float("nan")], inner={"x": float("inf")})
    events.close()
    assert json.loads(path.read_text()) == {
        "kind": "steps",
        "loss": [1.5, None],
        "inner": {"x": None},
    }


def test_lines_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for name in ("a", "b"):
        events = EventWriter(str(path))
        events.write(name)
        events.close()
    assert path.read_text() == '{"kind":"a"}\n{"kind":"b"}\n'


FULL_DISK = """
import resource, signal, sys
from trainload_worker.process.events import EventWriter
events = EventWriter(sys.argv[1])
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
answers = [events.write("x", n=n, pad="p" * 40) for n in range(4)]
resource.setrlimit(resource.RLIMIT_FSIZE, (10000, hard))
answers.append(events.write("x", n=4))
answers.append(events.write("end", events_lost=events.lost_count))
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
    assert [event.get("n") for event in good] == [0, 4, None]
    assert good[-1] == {"kind": "end", "events_lost": 3}


def test_a_forked_process_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    text = (
        "import os, sys\n"
        "from trainload_worker.process.events import EventWriter\n"
        "events = EventWriter(sys.argv[1])\n"
        "child = os.fork()\n"
        "events.write('child' if child == 0 else 'parent')\n"
        "os._exit(0) if child == 0 else os.waitpid(child, 0)\n"
    )
    command = [sys.executable, "-c", text, str(path)]
    subprocess.run(command, check=True, timeout=30, env={"PYTHONPATH": str(SOURCE_FOLDER)})
    assert json.loads(path.read_text()) == {"kind": "parent"}


def test_after_the_end_no_other_file_is_written_to(tmp_path: Path) -> None:
    events = EventWriter(str(tmp_path / "events.jsonl"))
    events.close()
    with (tmp_path / "other").open("w"):  # takes the number that has become free
        assert not events.write("late")
    assert (tmp_path / "other").read_text() == ""
    events.close()
