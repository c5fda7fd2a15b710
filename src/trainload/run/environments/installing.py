"""Making a framework's virtual environment: the interpreter it is made from, and pip.

Writes into the place it is given and nowhere else; whether the result is used is decided elsewhere.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from trainload.errors import EnvironmentProblem
from trainload.run.environments.frameworks import python_range, release_of, requirements_file
from trainload.run.environments.interpreters import ask_interpreter
from trainload.run.environments.pip_words import explain_failure, progress_words

Show = Callable[[str], None]


def choose_base(framework: str, python: str | None) -> str:
    """An interpreter of a version that the pinned packages exist for."""
    low, high = python_range(framework)
    candidates: Iterable[str] = [python] if python else [sys.executable, *_numbered(low, high)]
    for candidate in candidates:
        path = shutil.which(Path(candidate).expanduser())
        if path is None:
            continue
        answer, failure = ask_interpreter(
            path, "import sys, venv; print('%d.%d' % sys.version_info[:2])"
        )
        if failure is None and low <= release_of(answer) <= high:
            return path
    span = " to ".join(".".join(map(str, bound)) for bound in (low, high))
    named = f"{python} is none: " if python else ""
    raise EnvironmentProblem(
        f"{named}{framework} needs a Python interpreter of version {span} with its venv module; "
        f"name one with: trainload env create {framework} --python PYTHON"
    )


def _numbered(low: tuple[int, int], high: tuple[int, int]) -> list[str]:
    return [f"python{low[0]}.{minor}" for minor in range(high[1], low[1] - 1, -1)]


def build_environment(framework: str, base: str, place: Path, show: Show) -> str:
    """Make the virtual environment and install into it; its interpreter."""
    show(f"{framework}: making an environment with {base}")
    python = str(place.absolute() / "bin" / "python")
    made = subprocess.run(
        [base, "-m", "venv", str(place)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        words = (made.stderr or made.stdout).strip().splitlines()
        raise EnvironmentProblem(
            f"{base} cannot make a virtual environment: {words[-1] if words else 'no reason given'}"
        )
    command = [
        *(python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"),
        *("--progress-bar", "off", "--retries", "2"),
        # Whoever has a slow line has told pip so already.
        *(() if "PIP_DEFAULT_TIMEOUT" in os.environ else ("--timeout", "20")),
        *("-r", str(requirements_file(framework))),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        said = []
        try:
            for line in process.stdout:
                said.append(line)
                progress = progress_words(line)
                if progress is not None:
                    show(f"{framework}: {progress}")
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise EnvironmentProblem(explain_failure(framework, said))
    return python
