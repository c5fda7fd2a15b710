"""A stranger's table is read by a short-lived process first: what kills that does not kill us.

One process serves all tables of a command and is started again where one brought it down. Its
words on standard error go no further than one line.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO

from trainload.errors import RecordError
from trainload.record.parquet import LENGTH_BYTES

LIMIT_S = 60.0
"""For one table; it may take far less of a core's time (`parquet.py`)."""
_PROGRAM = Path(__file__).with_name("parquet.py")
_SAID_BYTES = 4096


class _Died(Exception):
    """The trial process ended before its answer; the text says how."""


def find_trouble(data: bytes) -> str | None:
    """What is wrong with the bytes of a table, as the end of a sentence; None where they read.

    RecordError where no trial process can be started.
    """
    with _turn:
        try:
            return _process().ask(data)
        except _Died:
            pass  # it may have been idle too long, or be weary of earlier tables
        try:
            return _process().ask(data)
        except _Died as error:
            return f"is damaged: it brings down the library that reads it ({error})"


class TrialProcess:
    """One running trial; `ask` raises _Died once it has ended, and it is of no use from then on."""

    def __init__(self) -> None:
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_PROGRAM), *_polars_folder()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                env={**os.environ, "POLARS_MAX_THREADS": "1", "RUST_BACKTRACE": "0"},
                # A Ctrl-C at the terminal is for us; it ends with its standard input.
                start_new_session=True,
            )
        except OSError as error:
            self._said.close()
            raise RecordError(
                f"cannot start {sys.executable}, which tries tables from elsewhere: {error}"
            ) from error
        try:
            self.ask(b"")
        except _Died as error:
            raise RecordError(
                f"the process that tries tables from elsewhere does not start ({error}); "
                "see whether this Python imports polars"
            ) from None

    @property
    def usable(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def ask(self, data: bytes) -> str | None:
        """What is wrong with these bytes; None where nothing is."""
        assert self._process.stdin is not None and self._process.stdout is not None
        late = threading.Timer(LIMIT_S, self._process.kill)
        late.daemon = True
        late.start()
        try:
            self._process.stdin.write(len(data).to_bytes(LENGTH_BYTES, "big"))
            self._process.stdin.write(data)
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = b""
        except BaseException:
            self.close()  # half a question was asked
            raise
        finally:
            late.cancel()
        if not line.endswith(b"\n"):
            raise _Died(self.close())
        answer: str | None = json.loads(line)
        return answer

    def close(self) -> str:
        """End it; how it ended, in a few words."""
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        try:
            status = self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        if self._said.closed:
            return "ended"
        self._said.seek(max(0, self._said.seek(0, os.SEEK_END) - _SAID_BYTES))
        said = self._said.read().decode("utf-8", "replace").splitlines()
        self._said.close()
        words = [line for line in said if "allocation of" in line or "panicked" in line]
        return ": ".join([_ending(status), *words[-1:]])[:200]

    def abandon(self) -> None:
        """Let go of one that another process started: it is theirs to end."""
        for pipe in (self._process.stdin, self._process.stdout, self._said):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        self._process.returncode = 0  # not our child: there is nothing to wait for


_turn = threading.Lock()
_running: TrialProcess | None = None


def _process() -> TrialProcess:
    global _running
    if _running is not None and not _running.usable:
        _end()
    if _running is None:
        _running = TrialProcess()
    return _running


@atexit.register
def _end() -> None:
    global _running
    ended, _running = _running, None
    if ended is not None:
        ended.close()


def _forget() -> None:
    """In a child of ours, which has not started the trial and may not speak to it."""
    global _running, _turn
    theirs, _running, _turn = _running, None, threading.Lock()
    if theirs is not None:
        theirs.abandon()


os.register_at_fork(after_in_child=_forget)


def _polars_folder() -> list[str]:
    """Where we have polars from, for an interpreter that is set up otherwise."""
    spec = importlib.util.find_spec("polars")
    return [] if spec is None or spec.origin is None else [str(Path(spec.origin).parents[1])]


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-status).name
    return f"signal {-status}"
