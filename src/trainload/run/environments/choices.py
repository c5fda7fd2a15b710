"""Small files that say which interpreter each framework uses, and what was found out about it.

Sole owner of the names in the environments' folder; starts no interpreter.
"""

import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainload.errors import EnvironmentProblem
from trainload.files import write_whole

ENVIRONMENTS_VARIABLE = "TRAINLOAD_ENVS"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The interpreter of a framework."""

    python: str
    own: bool
    """Made here, and deleted with its choice."""


def environments_folder() -> Path:
    """$TRAINLOAD_ENVS, or `trainload/envs` in the user's data folder."""
    named = os.environ.get(ENVIRONMENTS_VARIABLE)
    if named:
        return Path(named).expanduser()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "trainload" / "envs"


def load_choice(folder: Path, framework: str) -> Choice | None:
    """What was chosen; None where nothing was, or the file says nothing."""
    document = _load(folder / f"{framework}.json")
    try:
        return Choice(python=str(document["python"]), own=bool(document["own"]))
    except KeyError:
        return None


def save_choice(folder: Path, framework: str, choice: Choice) -> None:
    """Write it whole or not at all."""
    try:
        _save(folder, f"{framework}.json", {"python": choice.python, "own": choice.own})
    except OSError as error:
        raise EnvironmentProblem(f"cannot write into {folder}: {error.strerror}") from error


def forget_choice(folder: Path, framework: str) -> None:
    """As if never chosen."""
    (folder / f"{framework}.json").unlink(missing_ok=True)


def discard(folder: Path, choice: Choice | None) -> None:
    """Delete an environment made here, and nothing else."""
    if choice is not None and choice.own:
        place = Path(choice.python).parent.parent
        if place.parent == folder.absolute() or place.parent == folder:
            shutil.rmtree(place, ignore_errors=True)


def sweep(folder: Path, framework: str) -> None:
    """Delete what a creation that was killed has left: a day old, and in use by nothing."""
    chosen = load_choice(folder, framework)
    for place in folder.glob(f"{framework}-*"):
        used = chosen is not None and Path(chosen.python).is_relative_to(place)
        if not used and time.time() - place.stat().st_mtime > 86400:
            shutil.rmtree(place, ignore_errors=True)


def was_imported(folder: Path, framework: str, python: str, versions: Mapping[str, str]) -> bool:
    """Whether this very interpreter has imported the framework in these versions before."""
    return _load(folder / _imports_name(framework)).get(python) == _mark(python, versions)


def note_import(folder: Path, framework: str, python: str, versions: Mapping[str, str]) -> None:
    """Remember that it did; where that cannot be written the import is tried again next time."""
    known = _load(folder / _imports_name(framework))
    try:
        _save(folder, _imports_name(framework), {**known, python: _mark(python, versions)})
    except OSError:
        pass


def forget_imports(folder: Path, framework: str) -> None:
    """Have the import tried again."""
    try:
        (folder / _imports_name(framework)).unlink(missing_ok=True)
    except OSError:
        pass  # nobody could write it either


def known_libraries_bytes(
    folder: Path, framework: str, python: str, versions: Mapping[str, str]
) -> int | None:
    """What the libraries of this very interpreter took when it was measured; None if never."""
    kept = _load(folder / _libraries_name(framework)).get(python)
    if not isinstance(kept, list) or len(kept) != 3 or kept[:2] != _mark(python, versions):
        return None
    return kept[2] if isinstance(kept[2], int) else None


def note_libraries_bytes(
    folder: Path, framework: str, python: str, versions: Mapping[str, str], size_bytes: int
) -> None:
    """Remember it; where that cannot be written it is measured again next time."""
    known = _load(folder / _libraries_name(framework))
    kept = {**known, python: [*_mark(python, versions), size_bytes]}
    try:
        _save(folder, _libraries_name(framework), kept)
    except OSError:
        pass


def _libraries_name(framework: str) -> str:
    return f"{framework}.libraries"


def _imports_name(framework: str) -> str:
    return f"{framework}.imports"


def _mark(python: str, versions: Mapping[str, str]) -> list[Any]:
    try:
        changed_ns: int | None = Path(python).stat().st_mtime_ns
    except OSError:
        changed_ns = None
    return [changed_ns, dict(versions)]


def _load(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _save(folder: Path, name: str, document: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / name, (json.dumps(document) + "\n").encode("utf-8"))
