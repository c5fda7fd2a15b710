"""The scripts under examples/ run as they stand."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import trainload

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


@pytest.mark.framework("torch")
@pytest.mark.parametrize(
    ("name", "library", "words", "per_step"),
    [
        ("plain_loop", "torch", ["--epochs", "2", "--rows", "1024"], (32, None)),
        ("lightning_fit", "lightning", ["--epochs", "2", "--rows", "1024"], (64, None)),
        ("hf_trainer", "transformers", ["--steps", "30"], (16, 16 * 64)),
    ],
)
def test_a_script_as_people_write_them_tells_throughput_loss_and_phases(
    tmp_path: Path,
    name: str,
    library: str,
    words: list[str],
    per_step: tuple[int, int | None],
) -> None:
    for needed in ("torch", library, *(["accelerate"] if library == "transformers" else [])):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    run = trainload.run(
        EXAMPLES / "scripts" / f"{name}.py",
        arguments=[*words, "--out", str(tmp_path / "out")],
        out=tmp_path / "runs",
        threads=1,
        check_overhead=False,
        layers=False,
    )
    assert run.outcome == "completed", run.worker_log_tail()
    steps, summary = run.steps, run.summary
    assert steps["examples"].median() == per_step[0]
    assert steps["tokens"].max() == per_step[1]
    assert summary.examples_per_s > 0 and summary.last_loss < summary.first_loss
    told = {phase.name: phase.count for phase in summary.phases}
    assert told["prepare"] == 1 and told["validate"] >= 2 and told["checkpoint"] >= 2


def test_the_workflow_for_github_fails_where_the_change_is_surely_slower(
    tmp_path: Path, write_one: Callable[..., Path]
) -> None:
    document = yaml.safe_load((EXAMPLES / "github" / "training-cost.yml").read_text())
    (steps,) = (job["steps"] for job in document["jobs"].values())
    (words,) = (step["run"] for step in steps if step.get("name") == "compare")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "trainload"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m trainload "$@"\n')
    command.chmod(0o755)
    for side, step_s in (("base", 0.05), ("change", 0.06)):
        for number in range(3):
            write_one(tmp_path / "runs" / side, epochs=1, step_s=step_s * (1 + number / 1000))
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(trainload.__file__).parents[1]),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }
    done = subprocess.run(
        ["bash", "-e", "-c", words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "slower" in (tmp_path / "summary.md").read_text()
    assert (tmp_path / "compare.html").stat().st_size > 1000
