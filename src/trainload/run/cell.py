"""A cell of a study that comes from elsewhere: read as JSON, run here, handed back whole.

The far side of `study/executors`: standard library and psutil, as all that measures.
"""

import base64
import hashlib
import io
import json
import os
import select
import shutil
import signal
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from trainload.errors import RecordError, TrainloadError, UsageError
from trainload.files import write_whole
from trainload.record import StudyCell
from trainload.run.asking import ask_run
from trainload.run.driver import execute_run
from trainload.run.request import RunResult
from trainload.run.settle import CoolDown, check_drop_caches, drop_caches, wait_until_settled
from trainload_worker.protocol.checked import CheckError, build_checked, to_json

SILENCE_S = 90.0
"""After so long without a word from the other side the connection is taken as lost."""


@dataclass(frozen=True, kw_only=True)
class CellRequest:
    """One run as another machine is asked for it."""

    keywords: Mapping[str, Any]
    """What `trainload.run` is told."""
    study: StudyCell
    cool_down: CoolDown = CoolDown()
    drop_caches: bool = False
    script: str | None = None
    """The bytes of the script, in base64, where the keywords name one."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What precedes the run directory on its way back; one line of JSON."""

    run: str | None = None
    """Name of the directory; None where nothing could be started."""
    outcome: str | None = None
    problem: str | None = None
    """Why nothing could be started."""
    bytes: int = 0
    sha256: str = ""
    """Of the tar that follows."""


def parse_request(text: str) -> CellRequest:
    """A request from its JSON; UsageError where it is none."""
    try:
        return build_checked(CellRequest, json.loads(text), "request")
    except (ValueError, CheckError) as error:
        raise UsageError(f"--request: {error}") from None


def render_request(request: CellRequest) -> str:
    """A request as one line of JSON."""
    return json.dumps(to_json(request))


def run_cell(request: CellRequest, out: Path, scratch: Path) -> RunResult:
    """Let the machine settle, then run; TrainloadError where nothing can be started.

    `scratch` takes the script where the machine does not have it.
    """
    keywords = dict(request.keywords)
    if request.script is not None:
        keywords["what"] = str(_script_here(Path(keywords["what"]), request.script, scratch))
    wanted = ask_run(**keywords, out=out, study=request.study)
    if request.drop_caches:
        check_drop_caches()
        drop_caches()
    wait_until_settled(request.cool_down)
    return execute_run(wanted)


def send_cell(text: str, stream: BinaryIO) -> int:
    """Run a request and write the answer and its run directory to a stream; the exit status."""
    with tempfile.TemporaryDirectory(prefix="trainload-cell-") as scratch:
        try:
            result = run_cell(parse_request(text), Path(scratch) / "runs", Path(scratch))
        except TrainloadError as error:
            _write(stream, Answer(problem=str(error)), b"")
            return 2
        packed = pack_folder(result.path)
        answer = Answer(
            run=result.path.name,
            outcome=result.outcome,
            bytes=len(packed),
            sha256=hashlib.sha256(packed).hexdigest(),
        )
        _write(stream, answer, packed)
    return 0


def file_cell(requests: Path, index: int, runs: Path, arriving: Path) -> int:
    """Run one line of a file of requests, and rename its directory into `runs`; the exit status.

    Beside the file, `INDEX.done` names the directory before it is renamed, so that whoever finds
    it can finish that; `INDEX.problem` says why nothing was started.
    """
    with requests.open(encoding="utf-8") as lines:
        text = next((line for number, line in enumerate(lines) if number == index), "")
    shutil.rmtree(arriving, ignore_errors=True)
    arriving.mkdir(parents=True)
    mark = requests.parent / str(index)
    try:
        result = run_cell(parse_request(text), arriving / "runs", arriving)
    except TrainloadError as error:
        write_whole(mark.with_suffix(".problem"), str(error).encode("utf-8"))
        shutil.rmtree(arriving, ignore_errors=True)
        return 2
    if result.outcome != "interrupted":
        write_whole(mark.with_suffix(".done"), result.path.name.encode("utf-8"), sync=True)
        result.path.rename(runs / result.path.name)
    shutil.rmtree(arriving, ignore_errors=True)
    return 0


def pack_folder(folder: Path) -> bytes:
    """A folder as a tar, its own name first in every path."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
        tar.add(folder, arcname=folder.name)
    return packed.getvalue()


def unpack_folder(packed: bytes, into: Path, name: str) -> Path:
    """The folder that was packed, in `into`; RecordError where it holds anything else."""
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as tar:
            members = tar.getmembers()
            for one in members:
                parts = Path(one.name).parts
                if not (one.isfile() or one.isdir()) or parts[:1] != (name,) or ".." in parts:
                    raise RecordError(f"{name}: came back with {one.name!r}, which is not its own")
            tar.extractall(into, members=members, filter="data")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise RecordError(f"{name}: came back damaged: {error}") from error
    return into / name


@contextmanager
def ended_with(stream: int, silence_s: float = SILENCE_S) -> Iterator[None]:
    """Within, this process is interrupted when the other side closes the stream or falls silent.

    Nothing may be measured for a study that has gone away, beside one that has come back.
    """
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            ready, _, _ = select.select([stream], [], [], silence_s)
            if not ready or not os.read(stream, 4096):
                break
        if not over.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def read_line(stream: int) -> str:
    """The first line of a descriptor, and nothing beyond it."""
    found = bytearray()
    while not found.endswith(b"\n"):
        one = os.read(stream, 1)
        if not one:
            break
        found += one
    return found.decode("utf-8")


def _write(stream: BinaryIO, answer: Answer, packed: bytes) -> None:
    try:
        stream.write(json.dumps(to_json(answer)).encode("utf-8") + b"\n" + packed)
        stream.flush()
    except BrokenPipeError:
        sys.stderr.write("error: nobody took the run\n")


def _script_here(asked: Path, packed: str, scratch: Path) -> Path:
    """The script where it stands here, if it has the same bytes; else a copy of it."""
    content = base64.b64decode(packed)
    try:
        if asked.expanduser().read_bytes() == content:
            return asked
    except OSError:
        pass  # it is not here: the copy is run
    copy = scratch / asked.name
    copy.write_bytes(content)
    return copy
