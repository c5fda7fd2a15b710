"""What travels between machines: the code there, a run directory back, checked and filed whole."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from trainload.errors import RecordError
from trainload.record import Run, load_manifest
from trainload.run.cell import Answer, unpack_folder
from trainload.study.executors.executor import Finished, Task
from trainload_worker.protocol.checked import CheckError, build_checked

ARRIVING = "arriving"
"""Folder of a study beside its runs, for run directories that are not whole yet."""

Load = Callable[[Path], Run]
"""Reads a run directory back, sealed."""


@dataclass(frozen=True, kw_only=True)
class Code:
    """The two packages as a tar."""

    digest: str
    packed: bytes


@cache
def pack_code() -> Code:
    """This trainload's own files, known by their content."""
    packed, digest = io.BytesIO(), hashlib.sha256()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=6) as tar:
        for name, path in _files():
            content = path.read_bytes()
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
    return Code(digest=digest.hexdigest()[:16], packed=packed.getvalue())


def _files() -> Iterator[tuple[str, Path]]:
    for package in ("trainload", "trainload_worker"):
        found = importlib.util.find_spec(package)
        assert found is not None and found.origin is not None, "a package with an __init__"
        root = Path(found.origin).parent
        for path in sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield str(Path(root.name) / path.relative_to(root)), path


def take_answer(task: Task, stream: bytes, load: Load) -> Finished:
    """File what a machine sent for a task; lost where it is not whole.

    An interrupted run was ended from outside, there: it is run again, and nothing is kept of it.
    """
    line, _, packed = stream.partition(b"\n")
    try:
        answer = build_checked(Answer, json.loads(line), "answer")
    except (ValueError, CheckError):
        return Finished(task=task, run=None, lost=True, problem="no answer came back")
    if answer.run is None:
        return Finished(task=task, run=None, problem=answer.problem)
    whole = len(packed) == answer.bytes and hashlib.sha256(packed).hexdigest() == answer.sha256
    if not whole:
        return Finished(task=task, run=None, lost=True, problem="the run came back in part")
    if answer.outcome == "interrupted":
        return Finished(task=task, run=None, lost=True, problem="it was interrupted there")
    return Finished(task=task, run=file_run(task, packed, answer.run, load))


def file_run(task: Task, packed: bytes, name: str, load: Load) -> Run:
    """The run directory in its place among the study's; RecordError where the disk refuses."""
    arriving = task.runs.parent / ARRIVING
    try:
        arriving.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=arriving) as folder:
            found = unpack_folder(packed, Path(folder), name)
            told = load_manifest(found).study
            if told is None or (told.cell, told.repetition) != _known(task):
                raise RecordError(f"{name} came back for another cell")
            found.rename(task.runs / name)
    except OSError as error:
        raise RecordError(f"cannot write into {arriving}: {error.strerror}") from error
    return load(task.runs / name)


def forget_parts(folder: Path) -> None:
    """Remove what had not arrived whole when an earlier session ended; the caller holds it."""
    shutil.rmtree(folder / ARRIVING, ignore_errors=True)


def _known(task: Task) -> tuple[str, int]:
    return task.place.cell, task.place.repetition
