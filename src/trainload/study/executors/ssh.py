"""Cells one by one on a machine over ssh, which needs Python, psutil and the framework alone.

The code goes there once, a cell's words through standard input, its run directory back through
standard output: nothing of it is left there. The system's own ssh, its keys and its configuration.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, cast

from trainload.errors import StudyError
from trainload.run.cell import render_request
from trainload.study.executors import node
from trainload.study.executors.executor import Begun, Finished, Task, Tell
from trainload.study.executors.parcels import Load, pack_code, take_answer

SSH = "TRAINLOAD_SSH"
"""Variable with the command to use in place of `ssh`, options and all."""
_OPTIONS = ("BatchMode=yes", "ConnectTimeout=15", "ServerAliveInterval=10", "ServerAliveCountMax=6")
_SIGNALLED = 128
"""From this exit status on the run there was ended from outside; 255 is a failed connection."""
AWAY_LIMIT_S = 600.0
"""For how long the machine may be away, as for a restart, before the session ends."""
AGAIN_S = 3.0
_ASK_LIMIT_S = 120.0


class SshExecutor:
    """One machine, one cell at a time; a lost connection gives the cell back."""

    capacity = 1
    elsewhere = True

    def __init__(
        self, place: str, *, load: Load, tell: Tell, away_limit_s: float = AWAY_LIMIT_S
    ) -> None:
        """`place` is HOST or HOST:/path/to/python; StudyError where it does not answer."""
        host, slash, path = place.partition(":/")
        self._host, self._python = host, f"/{path}" if slash else "python3"
        if not host or host.startswith("-"):
            raise StudyError(f"--on ssh:{place}: name a machine, as in --on ssh:user@board")
        self._load, self._tell, self._away_limit_s = load, tell, away_limit_s
        self._ssh = shlex.split(os.environ.get(SSH, "ssh"))
        self._waiting: list[tuple[Task, Begun]] = []
        self._back: list[Finished] = []
        self._running: _Door | None = None
        self._away_s: float | None = None
        self._complaint = "no answer"
        found = self._prepare()
        if found is None:
            raise StudyError(f"--on ssh:{host}: {self._complaint}; try: ssh {host} true")
        self._code = found

    def submit(self, task: Task, begun: Begun) -> None:
        """Keep the task until `collect`."""
        self._waiting.append((task, begun))

    def collect(self, wait_s: float) -> Sequence[Finished]:
        """Start the waiting task where the machine is there, and give back what has ended."""
        deadline_s = time.monotonic() + wait_s
        if self._running is None and self._waiting and not self._is_back():
            time.sleep(max(0.0, min(AGAIN_S, wait_s)))
        elif self._running is None and self._waiting:
            task, begun = self._waiting.pop(0)
            begun()
            self._running = _Door(task, self._remote(self._door_words()))
        found, self._back = self._back, []
        if self._running is not None and not found:
            self._tell(f"{self._running.task.title} · on {self._host}")
            if self._running.wait(max(0.0, deadline_s - time.monotonic())):
                found.append(self._take(self._running))
                self._running = None
        return found

    def cancel(self, *, running: bool) -> None:
        """Take back what waits; with `running`, end the run there."""
        self._back += [
            Finished(task=task, run=None, lost=True, begun=False) for task, _ in self._waiting
        ]
        self._waiting.clear()
        if running:
            self.close()

    def close(self) -> None:
        """End what runs there, by hanging up."""
        if self._running is not None:
            self._running.hang_up()
            self._running = None

    def _is_back(self) -> bool:
        """Whether the machine answers after a loss; StudyError where it stayed away too long."""
        if self._away_s is None:
            return True
        found = self._prepare()
        if found is not None:
            self._code, self._away_s = found, None
            return True
        away_s = time.monotonic() - self._away_s
        if away_s > self._away_limit_s:
            raise StudyError(
                f"{self._host} has not answered for {away_s:.0f} s: {self._complaint}; "
                "the same command goes on when it does"
            )
        self._tell(f"{self._host} does not answer: {self._complaint}")
        return False

    def _take(self, door: _Door) -> Finished:
        status, answer, complaints = door.status, door.answer, door.complaints
        last = complaints.strip().rpartition("\n")[2]
        lost = status < 0 or status >= _SIGNALLED
        if not lost and not answer:
            said = f"{self._host}: {last or f'the run there ended with {status}'}"
            return Finished(task=door.task, run=None, problem=said)
        if not lost:
            found = take_answer(door.task, answer, self._load)
            if not found.lost:
                return found
            last = found.problem or ""
        self._away_s = time.monotonic()
        said = f"{self._host}: {last or 'the connection was lost'}"
        return Finished(task=door.task, run=None, lost=True, problem=said)

    def _prepare(self) -> str | None:
        """Have the code there; where it lies. None where the machine does not answer."""
        code = pack_code()
        answer = self._ask("ask", code.digest, b"")
        if answer == "wants":
            self._tell(f"sending {len(code.packed) / 1e6:.1f} MB of code to {self._host}")
            answer = self._ask("keep", code.digest, code.packed)
        if answer is None:
            return None
        word, _, rest = answer.partition(" ")
        if word == "lacks":
            raise StudyError(
                f"--on ssh:{self._host}: {rest}; name another Python, as in "
                f"--on ssh:{self._host}:/opt/venv/bin/python"
            )
        return rest if word == "has" else None

    def _ask(self, verb: str, digest: str, sent: bytes) -> str | None:
        """The last line that the far side answers; None, and a complaint, where it does not."""
        source = Path(node.__file__).read_text(encoding="utf-8")
        words = [self._python, "-c", source, verb, digest]
        try:
            done = subprocess.run(
                self._remote(words), input=sent, capture_output=True, timeout=_ASK_LIMIT_S
            )
        except OSError as error:
            raise StudyError(f"cannot run {self._ssh[0]}: {error.strerror}") from error
        except subprocess.TimeoutExpired:
            self._complaint = f"no answer in {_ASK_LIMIT_S:.0f} s"
            return None
        said = done.stdout.decode("utf-8", "replace").strip().rpartition("\n")[2]
        if done.returncode == 0 and said:
            return said
        complaint = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        self._complaint = complaint or f"{self._python} there ended with {done.returncode}"
        return None

    def _door_words(self) -> list[str]:
        door = [self._python, "-m", "trainload.run", "--request", "-"]
        return ["env", f"PYTHONPATH={self._code}", *door]

    def _remote(self, words: Sequence[str]) -> list[str]:
        options = [word for one in _OPTIONS for word in ("-o", one)]
        return [*self._ssh, *options, self._host, shlex.join(words)]


class _Door:
    """One run over there, with the connection that belongs to it."""

    def __init__(self, task: Task, command: Sequence[str]) -> None:
        self.task = task
        self.answer, self.complaints = b"", ""
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        self._over = threading.Event()
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin is not None and stdout is not None and stderr is not None, "all are pipes"
        self._stdin = cast(BinaryIO, stdin)
        self._threads = [
            threading.Thread(target=self._speak, daemon=True),
            threading.Thread(target=self._hear, args=(stdout,), daemon=True),
            threading.Thread(target=self._hear_complaints, args=(stderr,), daemon=True),
        ]
        for one in self._threads:
            one.start()

    @property
    def status(self) -> int:
        """Exit status of ssh, which is that of the door where the connection held."""
        return self._process.wait()

    def wait(self, seconds: float) -> bool:
        """Whether it ends within so many seconds, and all it said is here."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        self._end()
        return True

    def hang_up(self) -> None:
        """Close our end: the run there is interrupted by that."""
        self._over.set()
        try:
            self._stdin.close()
        except OSError:
            pass  # it has gone already
        try:
            self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            self._process.terminate()
        self._end()

    def _end(self) -> None:
        self._over.set()
        for one in self._threads:
            one.join(30.0)
        for pipe in (self._stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass  # what was not sent has nobody to take it
        self._process.wait()

    def _speak(self) -> None:
        try:
            self._stdin.write(render_request(self.task.request()).encode("utf-8") + b"\n")
            self._stdin.flush()
        except (OSError, ValueError):
            return  # the exit status tells
        node.beat(self._stdin, self._over)

    def _hear(self, stream: BinaryIO) -> None:
        self.answer = stream.read()

    def _hear_complaints(self, stream: BinaryIO) -> None:
        self.complaints = stream.read()[-4000:].decode("utf-8", "replace")
