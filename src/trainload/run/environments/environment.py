"""The frameworks' own environments: finding, checking, making and removing them.

An environment is a virtual environment of its own or an interpreter that was there before; one
small file in the environments' folder says which, and is written last, so that nothing half-made
is ever used. Prints nothing; who wants to see progress passes a function.
"""

import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from trainload.errors import EnvironmentProblem
from trainload.run.environments.choices import (
    ENVIRONMENTS_VARIABLE,
    Choice,
    discard,
    environments_folder,
    forget_choice,
    forget_imports,
    load_choice,
    note_import,
    save_choice,
    sweep,
    was_imported,
)
from trainload.run.environments.frameworks import FRAMEWORKS, find_installable, pinned_versions
from trainload.run.environments.installing import Show, build_environment, choose_base
from trainload.run.environments.interpreters import (
    Inspection,
    State,
    check_import,
    inspect_interpreter,
)


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


def find_environment(framework: str, folder: Path | None = None) -> Environment:
    """The environment that a run of that framework would use, its versions checked."""
    return _find(framework, folder or environments_folder())[0]


def ready_interpreter(framework: str, python: str | None = None, folder: Path | None = None) -> str:
    """The interpreter for a run, or the one named, checked; EnvironmentProblem says what mends it.

    The framework is imported there once for each version, which is remembered in the folder: an
    import takes seconds, and one that dies would else be seen only after the run has begun.
    """
    folder = folder or environments_folder()
    if python is None:
        found, inspected = _find(framework, folder)
        if found.python is None or found.problem is not None:
            raise EnvironmentProblem(found.problem)
        path, mend = found.python, _mend(framework, own=found.own, force=True)
    else:
        mend = f"name another, or make one: trainload env create {framework}"
        path = _find_program(python, "--python ", mend)
        inspected = inspect_interpreter(framework, path)
        if inspected.problem is not None:
            raise EnvironmentProblem(f"--python: {inspected.problem}; {mend}")
    if not was_imported(folder, framework, path, inspected.versions):
        failure = check_import(framework, path)
        if failure is not None:
            raise EnvironmentProblem(f"{failure}; {mend}")
        note_import(folder, framework, path, inspected.versions)
    return path


def explain_import(framework: str, python: str, folder: Path | None = None) -> str | None:
    """Why a run could not import its framework and what mends it; None where it can."""
    failure = check_import(framework, python)
    if failure is None:
        return None
    folder = folder or environments_folder()
    forget_imports(folder, framework)
    chosen = load_choice(folder, framework)
    own = chosen is not None and chosen.own and chosen.python == python
    return f"{failure}; {_mend(framework, own=own, force=True)}"


def use_interpreter(framework: str, python: str, folder: Path | None = None) -> Environment:
    """Take an interpreter that was there before; EnvironmentProblem where it does not serve."""
    find_installable(framework)
    mend = f"name another, or make one: trainload env create {framework}"
    path = _find_program(python, "", mend)
    found = inspect_interpreter(framework, path)
    problem = found.problem or check_import(framework, path)
    if problem is not None:
        raise EnvironmentProblem(f"{problem}; {mend}")
    folder = folder or environments_folder()
    before = load_choice(folder, framework)
    save_choice(folder, framework, Choice(python=path, own=False))
    note_import(folder, framework, path, found.versions)
    discard(folder, before)
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
    before = load_choice(folder, framework)
    if before is not None and before.own and not force:
        found = find_environment(framework, folder)
        if found.state == "ready":
            show(f"{framework} {found.version} is there already: {found.python}")
            return found
    base = choose_base(framework, python)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder, framework)
        place = Path(tempfile.mkdtemp(prefix=f"{framework}-", dir=folder))
    except OSError as error:
        raise EnvironmentProblem(
            f"cannot make an environment in {folder}: {error.strerror}; choose another folder "
            f"with --path or {ENVIRONMENTS_VARIABLE}"
        ) from error
    try:
        made = build_environment(framework, base, place, show)
        failure = check_import(framework, made)
        if failure is not None:
            raise EnvironmentProblem(
                f"the new environment is not used: {failure}; "
                f"try another interpreter: trainload env create {framework} --python PYTHON"
            )
        save_choice(folder, framework, Choice(python=made, own=True))
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    forget_imports(folder, framework)
    note_import(folder, framework, made, inspect_interpreter(framework, made).versions)
    discard(folder, before)
    return find_environment(framework, folder)


def remove_environment(framework: str, folder: Path | None = None) -> str:
    """Forget the framework's environment; one made here is deleted. Says what was done."""
    find_installable(framework)
    folder = folder or environments_folder()
    before = load_choice(folder, framework)
    if before is None:
        raise EnvironmentProblem(f"there is no environment of {framework} in {folder}")
    forget_choice(folder, framework)
    forget_imports(folder, framework)
    discard(folder, before)
    return "deleted" if before.own else f"forgotten; {before.python} is left as it was"


def list_environments(folder: Path | None = None) -> list[Environment]:
    """Every framework that needs one with its environment, or without one."""
    needy = [name for name, offer in FRAMEWORKS.items() if offer.distributions]
    return [find_environment(framework, folder) for framework in needy]


def _find(framework: str, folder: Path) -> tuple[Environment, Inspection]:
    known = find_installable(framework)
    chosen = load_choice(folder, framework)
    if chosen is None:
        return _find_here(framework)
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
        state, problem = "wrong version", f"the environment has {stale[0]}"
    if problem is not None:
        problem = f"{framework}: {problem}; {_mend(framework, own=chosen.own)}"
    version = next((found.versions[n] for n in known.distributions if n in found.versions), None)
    environment = Environment(
        framework=framework,
        state=state,
        python=chosen.python,
        version=version,
        own=chosen.own,
        problem=problem,
    )
    return environment, found


def _find_here(framework: str) -> tuple[Environment, Inspection]:
    """The interpreter that runs this, where it has the framework."""
    here = inspect_interpreter(framework, sys.executable)
    if here.state == "ready":
        found = Environment(
            framework=framework, state="here", python=sys.executable, version=here.version
        )
        return found, here
    mend = (
        f"trainload env create {framework} does it, "
        f"or name an interpreter that has it: trainload env use {framework} PYTHON"
    )
    if here.state == "wrong version":
        mend = f"{here.problem}; one of its own: {mend}"
        return Environment(framework=framework, state="wrong version", problem=mend), here
    problem = f"{framework} is not installed; {mend}"
    return Environment(framework=framework, state="not installed", problem=problem), here


def _mend(framework: str, *, own: bool, force: bool = False) -> str:
    """The command that mends an environment; `force` where its versions are in order."""
    if own:
        return f"mend it: trainload env create {framework}{' --force' if force else ''}"
    return (
        f"mend it: trainload env use {framework} PYTHON names another interpreter, "
        f"trainload env create {framework} makes one"
    )


def _find_program(python: str, option: str, mend: str) -> str:
    """Its path; not resolved: an environment's interpreter is a link, which makes it one."""
    found = shutil.which(Path(python).expanduser())
    if found is None:
        raise EnvironmentProblem(f"{option}{python}: no such interpreter; {mend}")
    return str(Path(found).absolute())
