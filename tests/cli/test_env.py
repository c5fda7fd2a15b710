"""`trainload env` and `run --framework` as a user meets them; nothing is installed."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def trainload(folder: Path, *arguments: str) -> Any:
    return subprocess.run(
        [sys.executable, "-m", "trainload", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        env={**os.environ, "TRAINLOAD_ENVS": str(folder / "envs"), "COLUMNS": "200"},
    )


def fake_python(folder: Path, version: str, then: str = ":") -> str:
    """Answers as an interpreter with JAX of that version; `then` is what an import does."""
    path = folder / "fake-python"
    found = json.dumps({"jax": version, "flax": "1", "optax": "1", "numpy": "2"})
    path.write_text(f"#!/bin/sh\ncase \"$2\" in *metadata*) echo '{found}';; *) {then};; esac\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("list", {"--path", "--json", "--help"}),
        ("create", {"--path", "--python", "--force", "--no-force", "--quiet", "--json", "--help"}),
        ("use", {"--path", "--json", "--help"}),
        ("remove", {"--path", "--help"}),
    ],
)
def test_the_options_are_frozen(tmp_path: Path, verb: str, options: set[str]) -> None:
    text = trainload(tmp_path, "env", verb, "--help").stdout
    part = text[text.index("Options:") : text.rindex("Example")]
    assert set(re.findall(r"(?<!\S)--[a-z-]+", part)) == options
    assert f"trainload env {verb}" in text[text.rindex("Example") :]


def test_list_use_and_remove(tmp_path: Path) -> None:
    python = fake_python(tmp_path, "0.10.2")
    used = trainload(tmp_path, "env", "use", "jax", python)
    assert used.returncode == 0 and used.stdout == f"jax 0.10.2: {python}\n"
    listed = json.loads(trainload(tmp_path, "env", "list", "--json").stdout)
    assert listed["folder"] == str(tmp_path / "envs")
    by_name = {one["framework"]: one for one in listed["environments"]}
    assert by_name["jax"]["state"] == "ready" and by_name["mxnet"]["state"] == "not installed"
    shown = trainload(tmp_path, "env", "list").stdout
    assert python in shown and "trainload env create mxnet" in shown
    assert "left as it was" in trainload(tmp_path, "env", "remove", "jax").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "mlp", "--framework", "caffe"], "this version runs torch, tensorflow, jax, mxnet"),
        (["run", "mlp", "--framework", "mxnet"], "not installed; trainload env create mxnet"),
        (
            ["run", "mlp", "--framework", "jax", "--python", "PYTHON"],
            "this version takes from",
        ),
        (["env", "use", "jax", "PYTHON"], "trainload env create jax"),
        (["env", "use", "jax", "/nowhere"], "no such interpreter"),
        (["env", "create", "caffe"], "no such framework; there are torch, tensorflow, jax, mxnet"),
        (["env", "create", "jax", "--python", "/nowhere"], "needs a Python interpreter of version"),
        (["env", "remove", "jax"], "there is no environment of jax"),
        (["env", "craete"], "No such command"),
    ],
)
def test_what_is_missing_or_wrong_is_one_line(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    python = fake_python(tmp_path, "0.1.0")
    done = trainload(tmp_path, *[python if word == "PYTHON" else word for word in arguments])
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_an_interpreter_that_dies_at_import_is_named_with_what_mends_it(tmp_path: Path) -> None:
    fake = fake_python(tmp_path, "0.10.2")
    assert trainload(tmp_path, "env", "use", "jax", fake).returncode == 0
    fake_python(tmp_path, "0.10.2", "kill -SEGV $$")
    done = trainload(tmp_path, "run", "mlp", "--framework", "jax", "--setting", "cpu0", "--quiet")
    assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1 and "dies by signal 11 when it imports jax" in errors[0]
    assert "trainload env create jax" in errors[0]
