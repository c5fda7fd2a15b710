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
        (["run", "mlp", "--framework", "caffe"], "there are torch, tensorflow, jax, mxnet"),
        (["run", "mlp", "--framework", "mxnet"], "not installed; trainload env create mxnet"),
        (
            ["run", "mlp", "--framework", "jax", "--python", "PYTHON"],
            "this version takes from",
        ),
        (
            ["run", "mlp", "--framework", "jax", "--python", "/nowhere"],
            "no such interpreter; name another, or make one: trainload env create jax",
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


def test_an_interpreter_that_dies_at_import_is_refused_before_a_run_is_made(
    tmp_path: Path,
) -> None:
    fake = fake_python(tmp_path, "0.10.2")
    assert trainload(tmp_path, "env", "use", "jax", fake).returncode == 0
    fake_python(tmp_path, "0.10.2", "kill -SEGV $$")
    words = ["run", "mlp", "--framework", "jax", "--setting", "cpu0", "--quiet"]
    for arguments in (words, [*words, "--python", fake]):
        done = trainload(tmp_path, *arguments)
        assert done.returncode == 2 and not (tmp_path / "runs").exists()
        assert len(done.stderr.strip().splitlines()) == 1
        assert "dies by signal 11 when it imports jax" in done.stderr
        assert "trainload env create jax" in done.stderr


def test_one_that_breaks_after_it_was_checked_is_named_after_the_run(tmp_path: Path) -> None:
    fake = fake_python(tmp_path, "0.10.2", f"[ ! -e {tmp_path}/broken ] || kill -SEGV $$")
    assert trainload(tmp_path, "env", "use", "jax", fake).returncode == 0
    (tmp_path / "broken").touch()
    words = ["run", "mlp", "--framework", "jax", "--setting", "cpu0", "--quiet"]
    done = trainload(tmp_path, *words)
    assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1 and "dies by signal 11 when it imports jax" in errors[0]
    assert "trainload env create jax" in errors[0]
    # What was remembered of it holds no longer.
    assert trainload(tmp_path, *words).returncode == 2
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_image_folders_without_pillow_are_refused_before_a_run_is_made(tmp_path: Path) -> None:
    fake = fake_python(tmp_path, "0.10.2")
    for name in ("cats", "dogs"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for number in range(4):
            (tmp_path / "pets" / name / f"{number}.png").write_bytes(b"a picture")
    words = ["--data", f"folder:{tmp_path / 'pets'}", "--cache", str(tmp_path / "cache")]
    done = trainload(tmp_path, "run", "lenet5", "--framework", "jax", "--python", fake, *words)
    assert done.returncode == 2 and not (tmp_path / "runs").exists()
    assert len(done.stderr.strip().splitlines()) == 1
    assert f"install it: {fake} -m pip install pillow" in done.stderr
