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
    "trainload.estimate(batch_size=3)": "call-overload",
    'trainload.estimate("x", precision="bf17")': "call-overload",
}
RIGHT = (
    'OverheadMeasurement(verdict="not_measured")',
    'replace(Manifest(), outcome="completed")',
    'End("completed")',
    'trainload.run("mlp", epochs=3).summary.step_time.median_s',
    'trainload.load("x").steps',
    'trainload.estimate("x", batch_size=3, precision="fp16").fits',
    'trainload.estimate("x", device=["t4", "a10"]).fitting',
)


def test_the_type_checker_knows_the_words_of_the_record() -> None:
    pytest.importorskip("mypy")
    lines = [*WRONG, *RIGHT]
    root = Path(__file__).parent.parent
    # In one place for ever: mypy's cache would otherwise name the file of another run.
    script = root / ".mypy_cache" / "words.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text(HEAD + "\n".join(lines) + "\n")
    first = HEAD.count("\n") + 1
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        str(script.relative_to(root)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=280)
    told = {}
    for line in done.stdout.splitlines():
        if "words.py:" in line and ": error:" in line:
            told[int(line.split(":")[1]) - first] = line.rpartition("[")[2].rstrip("]")
    expected = dict(enumerate(WRONG.values()))
    assert told == expected, done.stdout + done.stderr
