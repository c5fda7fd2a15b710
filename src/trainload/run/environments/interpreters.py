"""Interpreters and what is in them: asked by starting them, never by importing here.

Changes nothing; which interpreter belongs to which framework is kept elsewhere.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Literal

from trainload.run.environments.frameworks import find_installable, pinned_versions, release_of

_CHECK_TIMEOUT_S = 180.0
_FAILS = "fails: "

State = Literal["ready", "here", "not installed", "wrong version", "broken"]


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What an interpreter has of a framework, by its package metadata; nothing is imported."""

    state: State
    versions: Mapping[str, str]
    problem: str | None

    @property
    def version(self) -> str | None:
        """The framework's own version."""
        return next(iter(self.versions.values()), None)


def inspect_interpreter(framework: str, python: str) -> Inspection:
    """Whether that interpreter starts and has the framework in a version that is known here."""
    known = find_installable(framework)
    names = [*known.distributions, *pinned_versions(framework), *known.also]
    versions, problem = read_versions(python, list(dict.fromkeys(names)))
    if problem is not None:
        return Inspection(state="broken", versions={}, problem=problem)
    version = next((versions[name] for name in known.distributions if name in versions), None)
    if version is None:
        problem = f"{python} has no {framework}"
        return Inspection(state="not installed", versions=versions, problem=problem)
    missing = [name for name in known.also if name not in versions]
    if missing:
        problem = f"{python} has {framework} {version} but no {missing[0]}"
        return Inspection(state="not installed", versions=versions, problem=problem)
    if not known.lowest <= release_of(version) < known.below:
        problem = f"{python} has {framework} {version}; this version takes {known.accepted}"
        return Inspection(state="wrong version", versions=versions, problem=problem)
    return Inspection(state="ready", versions=versions, problem=None)


def check_import(framework: str, python: str) -> str | None:
    """How importing the framework fails in that interpreter; None where it does not."""
    modules = find_installable(framework).modules
    _, failure = ask_interpreter(python, f"import {', '.join(modules)}")
    if failure is None:
        return None
    if failure.startswith(_FAILS):
        return f"{python} cannot import {framework}: {failure.removeprefix(_FAILS)}"
    return f"{python} {failure} when it imports {framework}"


# What follows runs in the interpreter asked about, which may be an old one.
_METADATA_CODE = """
import json
from importlib import metadata
found = {{}}
for name in {names!r}:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def read_versions(python: str, names: Sequence[str]) -> tuple[dict[str, str], str | None]:
    """Those of the distributions that the interpreter has, and why it could not be asked."""
    if python == sys.executable:  # no process is needed for that
        found = {}
        for name in names:
            try:
                found[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                pass
        return found, None
    answer, failure = ask_interpreter(python, _METADATA_CODE.format(names=list(names)))
    if failure is not None:
        return {}, f"{python} {failure}"
    try:
        return dict(json.loads(answer)), None
    except (TypeError, ValueError):
        return {}, f"{python} answers as no Python interpreter does"


def ask_interpreter(python: str, code: str) -> tuple[str, str | None]:
    """What the code prints in that interpreter, and how it failed; None where it did not."""
    # A folder of its own: a file in the current one could stand in for a module.
    with tempfile.TemporaryDirectory() as folder:
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
        try:
            done = subprocess.run(
                [python, "-c", code],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_CHECK_TIMEOUT_S,
                check=False,
            )
        except OSError as error:
            return "", f"cannot be started: {error.strerror}"
        except subprocess.TimeoutExpired:
            return "", f"does not answer within {_CHECK_TIMEOUT_S:g} s"
    if done.returncode < 0:
        return done.stdout, f"dies by signal {-done.returncode}"
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        return (
            done.stdout,
            f"{_FAILS}{lines[-1][:200]}" if lines else f"ends with {done.returncode}",
        )
    return done.stdout, None
