"""What the type checker must refuse: words of the record that are misspelt."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAD = """
from dataclasses import replace
from trainload.record import Manifest, OverheadMeasurement
from trainload_worker.protocol.events import End
from trainload_worker.protocol.spec import TraceSpec
import trainload
"""
WRONG = {
    'OverheadMeasurement(verdict="not measured")': "arg-type",
    'replace(Manifest(), outcome="complete")': "arg-type",
    'End("complete")': "arg-type",
    "Manifest().overhead.verdict": "union-attr",
    'Manifest().data["total_steps"]': "index",
    "trainload.load()": "call-arg",
}
RIGHT = (
    'OverheadMeasurement(verdict="not_measured")',
    'replace(Manifest(), outcome="completed")',
    'End("completed")',
    'trainload.run("mlp", epochs=3).summary.step_time.median_s',
    'trainload.load("x").steps',
)


def test_the_type_checker_knows_the_words_of_the_record(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    lines = [*WRONG, *RIGHT]
    script = tmp_path / "words.py"
    script.write_text(HEAD + "\n".join(lines) + "\n")
    first = HEAD.count("\n") + 1
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(script)]
    root = Path(__file__).parent.parent
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=280)
    told = {}
    for line in done.stdout.splitlines():
        if line.startswith(str(script)) and ": error:" in line:
            told[int(line.split(":")[1]) - first] = line.rpartition("[")[2].rstrip("]")
    expected = dict(enumerate(WRONG.values()))
    assert told == expected, done.stdout + done.stderr
