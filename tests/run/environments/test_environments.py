"""Frameworks' environments, with interpreters that are small scripts; nothing is installed."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from trainload.errors import EnvironmentProblem, UsageError
from trainload.run import (
    FRAMEWORKS,
    check_import,
    create_environment,
    environments_folder,
    find_environment,
    inspect_interpreter,
    list_environments,
    measure_libraries_bytes,
    ready_interpreter,
    remove_environment,
    use_interpreter,
)
from trainload.run.environments import choices, frameworks
from trainload.run.environments import environment as room
from trainload.run.environments.choices import Choice
from trainload.run.environments.pip_words import explain_failure, progress_words

GOOD = {"jax": "0.10.2", "flax": "0.12.8", "optax": "0.2.8", "numpy": "2.4.6", "jaxlib": "0.10.2"}
GOOD["pillow"] = "13.0.0"


def fake_python(folder: Path, versions: dict[str, str], then: str = "") -> str:
    """A program that answers as an interpreter with these packages; `then` is what imports do."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "python"
    answer = f"echo '{json.dumps(versions)}'"
    path.write_text(f'#!/bin/sh\ncase "$2" in *metadata*) {answer};; *) {then or ":"};; esac\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_the_folder_is_named_or_the_user_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRAINLOAD_ENVS", str(tmp_path))
    assert environments_folder() == tmp_path
    monkeypatch.delenv("TRAINLOAD_ENVS")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert environments_folder() == tmp_path / "trainload" / "envs"


def test_requirements_are_pinned_and_the_pins_are_accepted() -> None:
    for name, framework in FRAMEWORKS.items():
        pins = frameworks.pinned_versions(name)
        known = [pins[one] for one in framework.distributions if one in pins]
        assert known and framework.lowest <= frameworks.release_of(known[0]) < framework.below
        assert frameworks.python_range(name)[0] <= (3, 11) <= frameworks.python_range(name)[1]
    assert frameworks.pinned_versions("mxnet")["numpy"].startswith("1.23.")


def test_nothing_is_installed_until_it_is(tmp_path: Path) -> None:
    found = find_environment("mxnet", tmp_path)
    assert found.state == "not installed" and found.python is None
    assert found.problem is not None and "trainload env create mxnet" in found.problem


def test_an_interpreter_is_used_by_its_path(tmp_path: Path) -> None:
    python = fake_python(tmp_path / "bin", GOOD)
    used = use_interpreter("jax", python, tmp_path / "envs")
    assert (used.state, used.version, used.python, used.own) == ("ready", "0.10.2", python, False)
    assert find_environment("jax", tmp_path / "envs") == used
    assert "left as it was" in remove_environment("jax", tmp_path / "envs")
    assert Path(python).exists()
    assert find_environment("jax", tmp_path / "envs").state == "not installed"
    with pytest.raises(EnvironmentProblem, match="there is no environment of jax"):
        remove_environment("jax", tmp_path / "envs")


@pytest.mark.parametrize(
    ("versions", "then", "state", "words"),
    [
        ({}, "", "not installed", "has no jax"),
        ({"jax": "0.10.2", "optax": "1"}, "", "not installed", "but no flax"),
        ({**GOOD, "jax": "0.2.0"}, "", "wrong version", "takes from 0.7 to below 1.0"),
        (GOOD, "kill -SEGV $$", "ready", "dies by signal 11 when it imports jax"),
        (
            GOOD,
            "echo 'ImportError: no libxla' >&2; exit 1",
            "ready",
            "cannot import jax: ImportError: no libxla",
        ),
    ],
)
def test_an_interpreter_that_does_not_serve_is_one_line(
    tmp_path: Path, versions: dict[str, str], then: str, state: str, words: str
) -> None:
    python = fake_python(tmp_path / "bin", versions, then)
    assert inspect_interpreter("jax", python).state == state
    with pytest.raises(EnvironmentProblem, match=words) as caught:
        use_interpreter("jax", python, tmp_path)
    assert "trainload env create jax" in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "jax.json").exists()


@pytest.mark.parametrize("version", ["2.5.1", "2.14.0", "1.13.1+cu117"])
def test_a_torch_outside_of_what_is_tested_is_refused_in_one_line(
    tmp_path: Path, version: str
) -> None:
    python = fake_python(tmp_path / "bin", {"torch": version})
    with pytest.raises(EnvironmentProblem) as caught:
        ready_interpreter("torch", python, tmp_path)
    assert f"has torch {version}; this version takes from 2.6 to below 2.14" in str(caught.value)
    assert "trainload env create torch" in str(caught.value) and "\n" not in str(caught.value)
    for accepted in ("2.6.0", "2.13.0+cpu"):
        fake_python(tmp_path / "bin", {"torch": accepted})
        assert ready_interpreter("torch", python, tmp_path) == python


def test_one_that_is_gone_or_was_changed_is_said(tmp_path: Path) -> None:
    python = fake_python(tmp_path / "bin", GOOD)
    use_interpreter("jax", python, tmp_path)
    fake_python(tmp_path / "bin", {**GOOD, "jax": "0.1.0"})
    assert find_environment("jax", tmp_path).state == "wrong version"
    os.unlink(python)
    found = find_environment("jax", tmp_path)
    assert found.state == "broken" and found.problem is not None
    assert "cannot be started: No such file or directory; mend it: trainload env" in found.problem


def test_an_own_environment_must_have_the_pinned_versions(tmp_path: Path) -> None:
    python = fake_python(tmp_path / "jax-1" / "bin", {**GOOD, "optax": "0.2.7"})
    choices.save_choice(tmp_path, "jax", Choice(python=python, own=True))
    found = find_environment("jax", tmp_path)
    assert found.state == "wrong version" and found.problem is not None
    assert "optax 0.2.7 where 0.2.8 is pinned; mend it: trainload env create jax" in found.problem


def test_a_build_of_the_pinned_version_is_that_version(tmp_path: Path) -> None:
    python = fake_python(
        tmp_path / "bin", {"torch": "2.13.0+cpu", "numpy": "2.4.6", "pillow": "13.0.0"}
    )
    choices.save_choice(tmp_path, "torch", Choice(python=python, own=True))
    assert find_environment("torch", tmp_path).state == "ready"


def test_an_import_is_tried_once_for_each_interpreter_and_version(tmp_path: Path) -> None:
    count = tmp_path / "count"
    python = fake_python(tmp_path / "bin", GOOD, f"echo x >> {count}")
    envs = tmp_path / "envs"
    assert ready_interpreter("jax", python, envs) == python
    assert ready_interpreter("jax", python, envs) == python
    assert count.read_text().count("x") == 1
    fake_python(tmp_path / "bin", {**GOOD, "jax": "0.10.3"}, f"echo x >> {count}")
    ready_interpreter("jax", python, envs)
    assert count.read_text().count("x") == 2
    (envs / "jax.imports").write_text("[]")
    ready_interpreter("jax", python, envs)
    assert count.read_text().count("x") == 3


def build_as(python_of: Any) -> Any:
    """Stands in for the making and filling of a virtual environment."""

    def build(framework: str, base: str, place: Path, show: Any) -> str:
        show(f"{framework}: installing")
        return str(python_of(place))

    return build


def test_creation_replaces_the_old_when_the_new_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(
        room, "build_environment", build_as(lambda place: fake_python(place / "bin", GOOD))
    )
    first = create_environment("jax", folder=tmp_path, show=said.append)
    assert first.state == "ready" and first.own and said == ["jax: installing"]
    assert create_environment("jax", folder=tmp_path, show=said.append) == first
    assert "is there already" in said[-1]
    second = create_environment("jax", folder=tmp_path, force=True)
    assert second.python != first.python and not Path(str(first.python)).exists()
    bad = build_as(lambda place: fake_python(place / "bin", GOOD, "kill -SEGV $$"))
    monkeypatch.setattr(room, "build_environment", bad)
    with pytest.raises(EnvironmentProblem, match="is not used"):
        create_environment("jax", folder=tmp_path, force=True)
    assert find_environment("jax", tmp_path) == second
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {"jax.json", "jax.imports", Path(str(second.python)).parent.parent.name}
    assert remove_environment("jax", tmp_path) == "deleted" and not list(tmp_path.iterdir())


def test_an_interrupted_creation_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(place: Path) -> str:
        (place / "half").mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(room, "build_environment", build_as(interrupt))
    with pytest.raises(KeyboardInterrupt):
        create_environment("jax", folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_and_an_interpreter_that_does_not_suit(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentProblem, match="choose another folder with --path"):
        create_environment("jax", folder=tmp_path / "file" / "envs")
    with pytest.raises(EnvironmentProblem, match=r"mxnet needs .* 3\.8 to 3\.11"):
        create_environment("mxnet", folder=tmp_path, python="/nowhere/python")
    with pytest.raises(UsageError, match="no such framework"):
        create_environment("caffe", folder=tmp_path)


def test_every_framework_is_listed(tmp_path: Path) -> None:
    assert [one.framework for one in list_environments(tmp_path)] == list(FRAMEWORKS)


def test_an_import_is_tried_in_the_interpreter_itself(tmp_path: Path) -> None:
    whole = fake_python(tmp_path / "a", {}, 'test "$2" = "import jax, flax.nnx, optax"')
    assert check_import("jax", whole) is None
    broken = fake_python(tmp_path / "b", {}, "echo \"No module named 'optax'\" >&2; exit 1")
    failure = check_import("jax", broken)
    assert failure is not None and "cannot import jax: No module named 'optax'" in failure


def test_what_needs_nothing_installed_has_no_environment(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="fake needs no environment"):
        find_environment("fake", tmp_path)


def test_pip_s_words_become_ours() -> None:
    assert progress_words("Collecting jax==0.10.2 (from -r jax.txt)") == "looking for jax==0.10.2"
    line = "Downloading jaxlib-0.10.2-cp311-cp311-manylinux_2_27_x86_64.whl (88.1 MB)"
    assert progress_words(line) == "downloading jaxlib (88.1 MB)"
    assert progress_words("Installing collected packages: a, b, c") == "installing 3 packages"
    assert progress_words("Looking in indexes: https://example.org/simple") is None


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("WARNING: Retrying … NewConnectionError('…: Network is unreachable')", "be offline"),
        ("ERROR: Could not install: [Errno 28] No space left on device", "the disk is full"),
        (
            "ERROR: No matching distribution at https://example.org/x",
            "distribution at …",
        ),
        ("", "it gave no reason"),
    ],
)
def test_pip_s_failures_are_one_line_with_the_next_act(said: str, words: str) -> None:
    line = explain_failure("jax", [said])
    assert words in line and "trainload env use jax PYTHON" in line
    assert "\n" not in line and "http" not in line


def test_what_libraries_take_is_measured_once_for_each_interpreter_and_version(
    tmp_path: Path,
) -> None:
    tries = tmp_path / "tries"
    then = f"echo x >> {tries}; echo 1234"
    python = fake_python(tmp_path / "bin", {"torch": "2.13.0"}, then)
    for _ in range(2):
        assert measure_libraries_bytes("torch", python, tmp_path) == 1234
    assert tries.read_text().count("x") == 1
    fake_python(tmp_path / "bin", {"torch": "2.12.0"}, then)
    assert measure_libraries_bytes("torch", python, tmp_path) == 1234
    assert tries.read_text().count("x") == 2, "another version is measured again"
    for said in ("echo null", "exit 3", "echo -5", "echo words"):
        silent = fake_python(tmp_path / said.replace(" ", ""), {"torch": "2.13.0"}, said)
        assert measure_libraries_bytes("torch", silent, tmp_path) is None
    assert measure_libraries_bytes("jax", python, tmp_path) is None, "nobody measures it there"
