"""Cells against this machine: does each level exist here, and can the workload be built?

Asks the rooms that will run a cell, and turns their complaints into a file, a line and a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainload.errors import EnvironmentProblem, SettingError, StudyError, TrainloadError
from trainload.hardware import Machine
from trainload.run import RunRequest, find_framework, prepare_request, ready_interpreter
from trainload.study.cells import Cell
from trainload.study.file import StudyFile
from trainload.study.keys import RUN_KEYS
from trainload.study.located import KeyPath, Located, split_complaint
from trainload_worker.protocol.offers import DEFAULT_FRAMEWORK


@dataclass(frozen=True, kw_only=True)
class Absent:
    """A cell that this machine cannot run."""

    cell: Cell
    reason: str


def check_cells(
    study: StudyFile, cells: Sequence[Cell], machine: Machine, *, elsewhere: bool = False
) -> tuple[list[Cell], list[Absent]]:
    """The cells that can run here, and those left out; StudyError where the file skips none.

    `elsewhere` they will run on other machines, whose cores and frameworks are not known here.

    Each level is tried once beside each model, framework and setting: enough to find what is
    wrong, without building every cell of a large grid.
    """
    checker = _Checker(machine, elsewhere=elsewhere)
    tried: dict[tuple[str, ...], TrainloadError | None] = {}
    kept, left_out = [], []
    for cell in cells:
        problem = None
        for mark in _marks(cell):
            if mark not in tried:
                tried[mark] = None
                found = checker.problem(cell)
                if found is not None:
                    if not _is_absence(found) or study.keys.absent == "error":
                        raise point_at(study.source, ("workload",), cell, found) from None
                    # What is missing belongs to one level: the mark of another is not tried yet.
                    if mark[:1] == _absence_mark(cell, found)[:1]:
                        tried[mark] = found
                    else:
                        del tried[mark]
                        tried[_absence_mark(cell, found)] = found
                    problem = found
                    break
            elif tried[mark] is not None:
                problem = tried[mark]
                break
        if problem is None:
            kept.append(cell)
        else:
            left_out.append(Absent(cell=cell, reason=str(problem)))
    if not kept:
        raise StudyError(f"{study.source.place}: no cell can run here: {left_out[0].reason}")
    return kept, left_out


_OF_A_MACHINE = ("setting", "threads", "processes")
"""Keys that only the machine which runs a cell can judge."""


def _marks(cell: Cell) -> Iterator[tuple[str, ...]]:
    """What has to be tried for a cell: framework and setting, then each level beside the model."""
    values = cell.values
    yield "framework", str(values.get("framework")), str(values.get("python"))
    yield "setting", str(values.get("setting")), str(values.get("threads"))
    around = (str(values.get("model") or values.get("script")), str(values.get("framework")))
    for name, level in cell.factors.items():
        yield "level", *around, name, repr(level)
    if not cell.factors:
        yield "level", *around


def _absence_mark(cell: Cell, found: TrainloadError) -> tuple[str, ...]:
    kind = "framework" if isinstance(found, EnvironmentProblem) else "setting"
    return next(mark for mark in _marks(cell) if mark[0] == kind)


def _is_absence(found: TrainloadError) -> bool:
    return isinstance(found, EnvironmentProblem | SettingError)


class _Checker:
    """Tries cells; what was found of an interpreter is remembered."""

    def __init__(self, machine: Machine, *, elsewhere: bool) -> None:
        self._machine = machine
        self._elsewhere = elsewhere
        self._frameworks: dict[tuple[str, str | None], TrainloadError | None] = {}

    def problem(self, cell: Cell) -> TrainloadError | None:
        values = cell.values
        try:
            if not self._elsewhere:
                self._check_framework(values)
            request_of(values, self._machine, elsewhere=self._elsewhere)
        except TrainloadError as error:
            return error
        return None

    def _check_framework(self, values: Mapping[str, Any]) -> None:
        name, python = values.get("framework") or DEFAULT_FRAMEWORK, values.get("python")
        if (name, python) not in self._frameworks:
            self._frameworks[name, python] = _framework_problem(name, python)
        found = self._frameworks[name, python]
        if found is not None:
            raise found


def _framework_problem(name: str, python: str | None) -> TrainloadError | None:
    try:
        if find_framework(name).distributions:
            ready_interpreter(name, python)
    except TrainloadError as error:
        return error
    return None


def request_of(
    values: Mapping[str, Any], machine: Machine, *, elsewhere: bool = False
) -> RunRequest:
    """The request that the values of a cell or a run file make; TrainloadError where they cannot.

    `elsewhere` without what only the machine that runs it can judge. Nothing is started, and
    nothing is looked for but data and cores.
    """
    if elsewhere:
        values = {key: one for key, one in values.items() if key not in _OF_A_MACHINE}
    options = {name: value for name, value in values.items() if name not in RUN_KEYS}
    framework = values.get("framework") or DEFAULT_FRAMEWORK
    return prepare_request(
        str(values.get("script") or values.get("model")),
        options,
        arguments=values.get("arguments", ()),
        seed=values.get("seed", 0),
        setting=values.get("setting"),
        threads=values.get("threads"),
        machine=machine,
        out=Path("runs"),
        framework=framework,
        processes=values.get("processes", 1),
        rate_hz=values.get("rate_hz", 10.0),
        timeout_s=values.get("timeout_s"),
        save=values.get("save", False),
    )


def point_at(source: Located, at: KeyPath, cell: Cell | None, error: TrainloadError) -> StudyError:
    """The complaint of another room with file, line and key, as far as its words tell the key."""
    path, what = split_complaint(str(error).removeprefix("--set ").removeprefix("--"))
    origins = {} if cell is None else cell.origins
    values = {} if cell is None else cell.values
    if isinstance(error, EnvironmentProblem):
        path, what = ("framework",), str(error)
    elif isinstance(error, SettingError):
        path, what = ("threads" if "--threads" in str(error) else "setting",), str(error)
    words = str(error).replace("--", " ").replace(":", " ").replace("=", " ").split()
    known = [*origins, *(key for key in values if key not in origins)]
    named = [str(part) for part in path if str(part) in known]
    named += [key for key in known if key in words or key.replace("_", "-") in words]
    named += [key for key in known if isinstance(values.get(key), str) and values[key] in words]
    named += [key for key in ("model", "script") if key in known]
    if not named:
        return source.wrong(at, str(error))
    key = named[0]
    said = what if path and path[-1] == key else str(error)
    where = origins.get(key, (*at, key))
    return source.wrong(where, said if where[-1:] == (key,) else f"{key}: {said}")
