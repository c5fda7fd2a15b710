"""A user's own training script as a workload: which file, with which arguments.

The script is run by the worker as it stands; nothing of it is read here but its bytes' digest.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainload.errors import WorkloadError
from trainload.workload.places import expand_user


@dataclass(frozen=True, kw_only=True)
class ScriptFile:
    """Which file, with which arguments."""

    path: str
    """As the user wrote it."""
    arguments: tuple[str, ...] = ()
    sha256: str | None = None
    """Digest of the script's bytes, so that two runs can be known to be of the same script."""
    folder: str | None = None
    """Name of the folder that the file stands in: `main.py` alone tells no two projects apart."""
    masked: int = 0
    """How many secrets in its arguments the record keeps as ***."""


@dataclass(frozen=True, kw_only=True)
class ScriptWorkload(ScriptFile):
    """What is trained, where only its author knows what that is."""

    @property
    def model(self) -> str:
        """The script's name without its ending: what the run is called after."""
        return Path(self.path).stem

    @property
    def place(self) -> Path:
        """Where the file really stands."""
        return expand_user(self.path).resolve()

    @property
    def epochs(self) -> None:
        """Unknown: the script decides."""
        return


def looks_like_script(name: str) -> bool:
    """Whether the first word of `trainload run` means a script rather than a model family."""
    return name.endswith(".py") or "/" in name


def script_workload(path: str, arguments: Sequence[str] = ()) -> ScriptWorkload:
    """The workload of a script; WorkloadError where there is no such file."""
    file = expand_user(path)
    try:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
    except FileNotFoundError:
        raise WorkloadError(f"no such script: {path}") from None
    except OSError as error:
        raise WorkloadError(f"cannot read the script {path}: {error.strerror}") from error
    return ScriptWorkload(
        path=path,
        arguments=tuple(arguments),
        sha256=digest,
        folder=file.resolve().parent.name or None,
    )
