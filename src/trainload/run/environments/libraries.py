"""What a framework's own libraries take by being used, measured in the interpreter that has it.

Starts that interpreter once for each version and remembers the figure; prints nothing.
"""

from __future__ import annotations

import json
from pathlib import Path

import trainload
from trainload.run.environments.choices import (
    environments_folder,
    known_libraries_bytes,
    note_libraries_bytes,
)
from trainload.run.environments.interpreters import ask_interpreter, inspect_interpreter

_FOLDER = Path(trainload.__file__).resolve().parent.parent / "trainload_worker/frameworks"
_CODE = "import runpy; runpy.run_path({path!r}, run_name='__main__')"


def measure_libraries_bytes(framework: str, python: str, folder: Path | None = None) -> int | None:
    """Growth of resident memory by the first few steps of a tiny model in that interpreter.

    None where the framework has no such measure, or the interpreter does not tell.
    """
    script = _FOLDER / framework / "libraries.py"
    if not script.is_file():
        return None
    folder = folder or environments_folder()
    versions = inspect_interpreter(framework, python).versions
    known = known_libraries_bytes(folder, framework, python, versions)
    if known is not None:
        return known
    said, failure = ask_interpreter(python, _CODE.format(path=str(script)))
    found = _figure(said) if failure is None else None
    if found is not None:
        note_libraries_bytes(folder, framework, python, versions, found)
    return found


def _figure(said: str) -> int | None:
    """The number in the last line; None where it is none."""
    try:
        found = json.loads(said.strip().rpartition("\n")[2])
    except ValueError:
        return None
    return found if isinstance(found, int) and found >= 0 else None
