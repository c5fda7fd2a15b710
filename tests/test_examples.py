"""The scripts under examples/ run as they stand."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.framework("torch")
def test_the_notebook_runs_loads_tabulates_and_plots(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = EXAMPLES / "notebook.py"
    code = [line for line in script.read_text().splitlines()[1:] if line.strip()]
    assert len(code) <= 12
    command = [sys.executable, str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()[:2]
    assert first.startswith("Run('runs/mlp-") and second.endswith(", completed)")
    assert len(list((tmp_path / "runs").iterdir())) == 2
    assert "examples_per_s" in done.stdout and done.stdout.count("completed") >= 4
    assert "run_cpu_load" not in done.stderr
    assert (tmp_path / "load.html").stat().st_size > 10_000
