"""The frameworks' own environments: where they are, what is in them, making and removing them.

An environment is a virtual environment of its own or an interpreter that was there before; one
small file in the environments' folder says which, and is written last, so that nothing half-made
is ever used. Prints nothing; who wants to see progress passes a function.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from trainload.errors import EnvironmentProblem, UsageError
from trainload.run.pip_words import explain_failure, progress_words

ENVIRONMENTS_VARIABLE = "TRAINLOAD_ENVS"
_REQUIREMENTS = Path(__file__).parent / "requirements"
_CHECK_TIMEOUT_S = 180.0

State = Literal["ready", "here", "not installed", "wrong version", "broken"]
Show = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Framework:
    """What makes an interpreter one of this framework's."""

    distributions: tuple[str, ...]
    """Names under which it may be installed; one is enough."""
    lowest: tuple[int, int]
    below: tuple[int, int]
    also: tuple[str, ...] = ()
    """Other distributions that its backend imports."""

    @property
    def accepted(self) -> str:
        """The versions that the backend is written for."""
        low, high = (".".join(map(str, bound)) for bound in (self.lowest, self.below))
        return f"from {low} to below {high}"


FRAMEWORKS: Mapping[str, Framework] = {
    "torch": Framework(distributions=("torch",), lowest=(1, 13), below=(3, 0)),
    # Keras 3 came with 2.16.
    "tensorflow": Framework(
        distributions=("tensorflow-cpu", "tensorflow"),
        lowest=(2, 16),
        below=(3, 0),
        also=("keras", "numpy"),
    ),
    "jax": Framework(
        distributions=("jax",), lowest=(0, 7), below=(1, 0), also=("flax", "optax", "numpy")
    ),
    "mxnet": Framework(distributions=("mxnet",), lowest=(1, 9), below=(2, 0), also=("numpy",)),
}


@dataclass(frozen=True, kw_only=True)
class Environment:
    """One framework's environment as it was found."""

    framework: str
    state: State
    python: str | None = None
    """Its interpreter; None where there is none."""
    version: str | None = None
    own: bool = False
    """Made here, from the pinned requirements, and removed with them."""
    problem: str | None = None
    """What is wrong and the command that mends it; None where nothing is."""


def environments_folder() -> Path:
    """$TRAINLOAD_ENVS, or `trainload/envs` in the user's data folder."""
    named = os.environ.get(ENVIRONMENTS_VARIABLE)
    if named:
        return Path(named).expanduser()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "trainload" / "envs"


def find_environment(framework: str, folder: Path | None = None) -> Environment:
    """The environment that a run of that framework would use, its versions checked."""
    known = _known(framework)
    folder = folder or environments_folder()
    chosen = _load_choice(folder, framework)
    if chosen is None:
        here = inspect_interpreter(framework, sys.executable)
        if here.state == "ready":
            return Environment(
                framework=framework, state="here", python=sys.executable, version=here.version
            )
        return Environment(
            framework=framework,
            state="not installed",
            problem=f"{framework} is not installed; trainload env create {framework} does it, "
            f"or name an interpreter that has it: trainload env use {framework} PYTHON",
        )
    found = inspect_interpreter(framework, chosen.python)
    wanted = pinned_versions(framework)
    stale = [
        f"{name} {found.versions.get(name, 'missing')} where {wanted[name]} is pinned"
        for name in wanted
        # A local part, as in 2.13.0+cpu, names the build.
        if chosen.own and found.versions.get(name, "").partition("+")[0] != wanted[name]
    ]
    state, problem = found.state, found.problem
    if state == "ready" and stale:
        state = "wrong version"
        problem = f"the environment has {stale[0]}"
    if problem is not None:
        mend = (
            f"trainload env create {framework}"
            if chosen.own
            else (
                f"trainload env use {framework} PYTHON names another interpreter, "
                f"trainload env create {framework} makes one"
            )
        )
        problem = f"{framework}: {problem}; mend it: {mend}"
    version = next((found.versions[n] for n in known.distributions if n in found.versions), None)
    return Environment(
        framework=framework,
        state=state,
        python=chosen.python,
        version=version,
        own=chosen.own,
        problem=problem,
    )


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
    known = _known(framework)
    names = [*known.distributions, *pinned_versions(framework), *known.also]
    versions, problem = _read_versions(python, list(dict.fromkeys(names)))
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
    if not known.lowest <= _release(version) < known.below:
        problem = f"{python} has {framework} {version}; this version takes {known.accepted}"
        return Inspection(state="wrong version", versions=versions, problem=problem)
    return Inspection(state="ready", versions=versions, problem=None)


def check_import(framework: str, python: str) -> str | None:
    """How importing the framework fails in that interpreter; None where it does not."""
    _, failure = _ask(python, f"import {framework}")
    return None if failure is None else f"{python} {failure} when it imports {framework}"


def use_interpreter(framework: str, python: str, folder: Path | None = None) -> Environment:
    """Take an interpreter that was there before; EnvironmentProblem where it does not serve."""
    _known(framework)
    found_path = shutil.which(Path(python).expanduser())
    if found_path is None:
        raise EnvironmentProblem(f"{python}: no such interpreter")
    # Not resolved: an environment's interpreter is a link, and the link is what makes it one.
    path = str(Path(found_path).absolute())
    found = inspect_interpreter(framework, path)
    problem = found.problem or check_import(framework, path)
    if problem is not None:
        raise EnvironmentProblem(
            f"{problem}; name another, or make one: trainload env create {framework}"
        )
    folder = folder or environments_folder()
    before = _load_choice(folder, framework)
    _save_choice(folder, framework, path, own=False)
    _discard(folder, before)
    return find_environment(framework, folder)


def create_environment(
    framework: str,
    *,
    folder: Path | None = None,
    python: str | None = None,
    force: bool = False,
    show: Show = lambda _line: None,
) -> Environment:
    """Build the environment from its pinned requirements; one that is in order is kept.

    It is built beside the one in use, which it replaces when it imports its framework. `python`
    is the interpreter it is made from.
    """
    folder = folder or environments_folder()
    before = _load_choice(folder, framework)
    if before is not None and before.own and not force:
        found = find_environment(framework, folder)
        if found.state == "ready":
            show(f"{framework} {found.version} is there already: {found.python}")
            return found
    base = _choose_base(framework, python)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder, framework)
        place = Path(tempfile.mkdtemp(prefix=f"{framework}-", dir=folder))
    except OSError as error:
        raise EnvironmentProblem(
            f"cannot make an environment in {folder}: {error.strerror}; choose another folder "
            f"with --path or {ENVIRONMENTS_VARIABLE}"
        ) from error
    try:
        made = _build(framework, base, place, show)
        failure = check_import(framework, made)
        if failure is not None:
            raise EnvironmentProblem(
                f"the new environment is not used: {failure}; "
                f"try another interpreter: trainload env create {framework} --python PYTHON"
            )
        _save_choice(folder, framework, made, own=True)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    _discard(folder, before)
    return find_environment(framework, folder)


def remove_environment(framework: str, folder: Path | None = None) -> str:
    """Forget the framework's environment; one made here is deleted. Says what was done."""
    _known(framework)
    folder = folder or environments_folder()
    before = _load_choice(folder, framework)
    if before is None:
        raise EnvironmentProblem(f"there is no environment of {framework} in {folder}")
    (folder / f"{framework}.json").unlink(missing_ok=True)
    _discard(folder, before)
    return "deleted" if before.own else f"forgotten; {before.python} is left as it was"


def list_environments(folder: Path | None = None) -> list[Environment]:
    """Every framework with its environment, or without one."""
    return [find_environment(framework, folder) for framework in FRAMEWORKS]


def pinned_versions(framework: str) -> dict[str, str]:
    """The versions that a new environment gets, by distribution."""
    pins = (line.partition("==") for line in _requirement_lines(framework) if "==" in line)
    return {name.strip(): version.strip() for name, _, version in pins}


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


def _read_versions(python: str, names: list[str]) -> tuple[dict[str, str], str | None]:
    """Those of the distributions that the interpreter has, and why it could not be asked."""
    if python == sys.executable:  # no process is needed for that
        found = {}
        for name in names:
            try:
                found[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                pass
        return found, None
    answer, failure = _ask(python, _METADATA_CODE.format(names=names))
    if failure is not None:
        return {}, f"{python} {failure}"
    try:
        return dict(json.loads(answer)), None
    except (TypeError, ValueError):
        return {}, f"{python} answers as no Python interpreter does"


@dataclass(frozen=True, kw_only=True)
class _Choice:
    python: str
    own: bool


def _known(framework: str) -> Framework:
    if framework not in FRAMEWORKS:
        raise UsageError(f"{framework}: no such framework; there are {', '.join(FRAMEWORKS)}")
    return FRAMEWORKS[framework]


def _requirement_lines(framework: str) -> list[str]:
    _known(framework)
    return (_REQUIREMENTS / f"{framework}.txt").read_text(encoding="utf-8").splitlines()


def _release(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _ask(python: str, code: str) -> tuple[str, str | None]:
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
        return done.stdout, f"fails: {lines[-1][:200]}" if lines else f"ends with {done.returncode}"
    return done.stdout, None


def _load_choice(folder: Path, framework: str) -> _Choice | None:
    try:
        document = json.loads((folder / f"{framework}.json").read_text(encoding="utf-8"))
        return _Choice(python=str(document["python"]), own=bool(document["own"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None  # never chosen, or a file that says nothing: as if never chosen


def _save_choice(folder: Path, framework: str, python: str, *, own: bool) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        beside = folder / f".{framework}.{os.getpid()}.json"
        beside.write_text(json.dumps({"python": python, "own": own}) + "\n", encoding="utf-8")
        beside.replace(folder / f"{framework}.json")
    except OSError as error:
        raise EnvironmentProblem(f"cannot write into {folder}: {error.strerror}") from error


def _discard(folder: Path, choice: _Choice | None) -> None:
    """Delete an environment made here, and nothing else."""
    if choice is not None and choice.own:
        place = Path(choice.python).parent.parent
        if place.parent == folder.absolute() or place.parent == folder:
            shutil.rmtree(place, ignore_errors=True)


def _sweep(folder: Path, framework: str) -> None:
    """Delete what a creation that was killed has left: a day old, and in use by nothing."""
    chosen = _load_choice(folder, framework)
    for place in folder.glob(f"{framework}-*"):
        used = chosen is not None and Path(chosen.python).is_relative_to(place)
        if not used and time.time() - place.stat().st_mtime > 86400:
            shutil.rmtree(place, ignore_errors=True)


def _choose_base(framework: str, python: str | None) -> str:
    """An interpreter of a version that the pinned packages exist for."""
    low, high = _python_range(framework)
    candidates: Iterable[str] = [python] if python else [sys.executable, *_numbered(low, high)]
    for candidate in candidates:
        path = shutil.which(Path(candidate).expanduser())
        if path is None:
            continue
        answer, failure = _ask(path, "import sys, venv; print('%d.%d' % sys.version_info[:2])")
        if failure is None and low <= _release(answer) <= high:
            return path
    span = " to ".join(".".join(map(str, bound)) for bound in (low, high))
    named = f"{python} is none: " if python else ""
    raise EnvironmentProblem(
        f"{named}{framework} needs a Python interpreter of version {span} with its venv module; "
        f"name one with: trainload env create {framework} --python PYTHON"
    )


def _python_range(framework: str) -> tuple[tuple[int, int], tuple[int, int]]:
    first = _requirement_lines(framework)[0]
    found = re.fullmatch(r"# python (\d+\.\d+)-(\d+\.\d+)", first)
    assert found, f"requirements of {framework} begin with their Python versions"
    return _release(found[1]), _release(found[2])


def _numbered(low: tuple[int, int], high: tuple[int, int]) -> list[str]:
    return [f"python{low[0]}.{minor}" for minor in range(high[1], low[1] - 1, -1)]


def _build(framework: str, base: str, place: Path, show: Show) -> str:
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
        *("--progress-bar", "off", "--retries", "2", "--timeout", "20"),
        *("-r", str(_REQUIREMENTS / f"{framework}.txt")),
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
