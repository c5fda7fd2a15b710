"""Runs one training in several processes, as torchrun does on one machine, and ends them all.

Every rank is a worker of its own with its own record; what they compute is none of this file's
business, and no framework is loaded here.
"""

from __future__ import annotations

import functools
import json
import os
import re
import select
import signal
import socket
import subprocess
from time import monotonic
from typing import Any, Mapping

from trainload_worker.process.ranks import rank_environment, rank_spec
from trainload_worker.process.signals import DRIVER_DIED, StopRequest, end_with_parent
from trainload_worker.protocol.checked import CheckError
from trainload_worker.protocol.events import End, RankEnd, parse_event
from trainload_worker.protocol.outcomes import EXIT_EVENTS_LOST
from trainload_worker.protocol.spec import LaunchSpec, dump_spec

SETTLE_S = 1.0
"""How long ranks may end by themselves after the first trouble: each leaves its own last word."""

GRACE_S = 3.0
"""From SIGTERM to SIGKILL; both together stay below the driver's own patience."""

PUMP_PERIOD_S = 0.1
"""How often output is passed on: seldom enough that a printing rank wakes nobody at each line."""

_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031  # fcntl.F_SETPIPE_SZ of Linux, which Python names from 3.10 on
_LAST_READS = 16
_LINE_BYTES = 1 << 16
_TAIL_BYTES = 1 << 16
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|[\r\n])")


def launch_ranks(spec: LaunchSpec, stop: StopRequest) -> End:
    """Runs every rank to its end, or ends all where one fails; none is left when this returns."""
    launcher = _Launcher(spec, stop)
    with stop.shielded(patience_s=None), _WakeUps() as wake_ups:
        try:
            launcher.start()
            launcher.follow(wake_ups)
        finally:
            launcher.kill()
    return launcher.ending()


class _Launcher:
    """All ranks of one run."""

    def __init__(self, spec: LaunchSpec, stop: StopRequest) -> None:
        self._spec = spec
        self._stop = stop
        self._ranks: list[_Rank] = []
        self._start_failure: End | None = None
        self._terminate_s: float | None = None
        self._stopped = False

    def start(self) -> None:
        """Starts the ranks one after the other; where one cannot be, the others are ended."""
        count, port = len(self._spec.ranks), _find_free_port()
        for rank in range(count):
            environment = rank_environment(
                os.environ, rank, count, port, self._spec.setting.threads
            )
            try:
                self._ranks.append(_Rank(self._spec, rank, environment))
            except OSError as error:
                reason = f"rank {rank}: cannot be started: {error.strerror}"
                self._start_failure = End("failed", reason, rank=rank)
                return

    def follow(self, wake_ups: _WakeUps) -> None:
        """Waits until every rank has ended, by itself or by force."""
        while True:
            passed = sum(rank.output.pump() for rank in self._ranks)
            running = [rank for rank in self._ranks if rank.is_running()]
            self._notice_trouble()
            if not running:
                return
            if self._terminate_s is not None:
                self._end(running, self._terminate_s)
            wake_ups.wait(0.0 if passed > _PIPE_BYTES // 2 else PUMP_PERIOD_S)

    def kill(self) -> None:
        """Ends whatever still runs, at once, and passes its last output on."""
        for rank in self._ranks:
            if rank.is_running():
                rank.kill()
                rank.wait()
            rank.output.close()

    def ending(self) -> End:
        """How the run ended, by its first failing rank; call it when all have ended."""
        lost = sum(rank.events_lost for rank in self._ranks)
        if self._start_failure is not None:
            return self._start_failure
        failed = [rank for rank in self._ranks if rank.failed]
        if not failed:
            return End("completed", None, events_lost=lost)
        if self._stopped:
            return End("interrupted", self._stop.reason, events_lost=lost)
        first = min((rank for rank in failed if not rank.told), key=_blame_order)
        found = first.ending()
        return End(
            found.outcome,
            f"rank {first.number}: {found.reason}",
            rank=first.number,
            signal=found.signal,
            events_lost=lost,
        )

    def _notice_trouble(self) -> None:
        if self._terminate_s is not None:
            return
        now_s, asked = monotonic(), self._stop.reason is not None
        failed = any(rank.failed and not (asked and rank.obeyed) for rank in self._ranks)
        if failed or self._start_failure is not None:
            self._terminate_s = now_s + SETTLE_S
        elif asked:
            self._stopped = True
            # A terminal or a driver tells the ranks too; a driver's death only this process.
            alone = self._stop.reason == DRIVER_DIED
            self._terminate_s = now_s if alone else now_s + SETTLE_S

    def _end(self, running: list[_Rank], terminate_s: float) -> None:
        now_s = monotonic()
        for rank in running:
            if now_s >= terminate_s + GRACE_S:
                rank.kill()
            elif now_s >= terminate_s and not rank.told:
                rank.tell()


class _Rank:
    """One rank: its process, its output and, once it has ended, its last word."""

    def __init__(self, spec: LaunchSpec, number: int, environment: Mapping[str, str]) -> None:
        self.number = number
        self.told = False
        self._events_path = spec.ranks[number].events_path
        self._word: RankEnd | None = None
        self._seen_s: float | None = None
        # No session of its own: who ends the launcher's group ends the ranks as well.
        self._process = subprocess.Popen(
            spec.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            # Before it is a program of its own: from then on no end of ours leaves it behind.
            preexec_fn=functools.partial(end_with_parent, os.getpid()),
        )
        assert self._process.stdout is not None and self._process.stdin is not None
        self.output = _Output(self._process.stdout, f"[rank {number}] " if number else "")
        try:
            self._process.stdin.write(dump_spec(rank_spec(spec, number)))
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it is gone already; its end tells

    def is_running(self) -> bool:
        """Whether it still runs; at its end its last word is read."""
        if self._seen_s is not None:
            return False
        if self._process.poll() is None:
            return True
        self._seen_s = monotonic()
        self._word = _read_last_word(self._events_path)
        return False

    def tell(self) -> None:
        """Asks it to end; from here on its end is no failure of its own."""
        self.told = True
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it at once; `is_running` tells when that is done."""
        self.told = True
        self._process.kill()

    def wait(self) -> None:
        """Waits for its end."""
        self._process.wait()
        self.is_running()

    @property
    def failed(self) -> bool:
        """Whether it has ended otherwise than completed."""
        return self._seen_s is not None and self.ending().outcome != "completed"

    @property
    def obeyed(self) -> bool:
        """Whether it ended because a signal asked for that."""
        found = self.ending()
        return found.outcome == "interrupted" or found.signal in (signal.SIGINT, signal.SIGTERM)

    @property
    def events_lost(self) -> int:
        """Events that it could not write, as far as it could tell."""
        return 0 if self._word is None else self._word.events_lost

    @property
    def ended_s(self) -> float:
        """When it ended by its own word, or else was seen to have ended."""
        said_s = None if self._word is None else self._word.t_s
        return said_s if said_s is not None else self._seen_s or 0.0

    def ending(self) -> End:
        """How it ended, whether or not it could say so."""
        status, word = self._process.returncode, self._word
        if word is not None and (word.outcome != "completed" or status == 0):
            return End(word.outcome, word.reason)
        if status < 0:
            return _signal_ending(-status)
        if status == EXIT_EVENTS_LOST:
            return End("failed", "its events could not be written (disk full?)")
        if status == 0 and word is None:
            return End("completed")  # it left by os._exit or became another program
        words = "" if word is not None else " and no last word"
        return End("failed", f"ended with status {status}{words}")


class _Output:
    """What one rank prints, passed on by whole lines so that those of several do not mix."""

    def __init__(self, stream: Any, prefix: str) -> None:
        self._stream = stream
        self._fd = stream.fileno()
        self._prefix = prefix.encode()
        self._rest = b""
        os.set_blocking(self._fd, False)
        try:
            import fcntl

            fcntl.fcntl(self._fd, _F_SETPIPE_SZ, _PIPE_BYTES)
        except (ImportError, OSError):
            pass  # the pipe keeps its usual size

    def pump(self) -> int:
        """Passes on what has been printed since; how many bytes that were."""
        data = self._read()
        if not data:
            return 0
        text, end = self._rest + data, 0
        lines = []
        for match in _LINE.finditer(text):
            lines.append(self._prefix + match.group())
            end = match.end()
        self._rest = text[end:]
        if len(self._rest) > _LINE_BYTES:
            lines.append(self._prefix + self._rest)
            self._rest = b""
        _print_bytes(b"".join(lines))
        return len(data)

    def close(self) -> None:
        """Passes on the rest, an unfinished line too."""
        # A process that the rank left behind may go on printing for ever.
        for _ in range(_LAST_READS):
            if not self.pump():
                break
        if self._rest:
            _print_bytes(self._prefix + self._rest + b"\n")
        self._stream.close()

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, _PIPE_BYTES)
        except BlockingIOError:
            return b""


class _WakeUps:
    """Ends a wait when a signal comes: a child's end, or the wish to stop."""

    def __enter__(self) -> _WakeUps:
        self._read_fd, self._write_fd = os.pipe()
        for fd in (self._read_fd, self._write_fd):
            os.set_blocking(fd, False)
        self._handler = signal.signal(signal.SIGCHLD, lambda *_: None)
        self._fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._fd)
        signal.signal(signal.SIGCHLD, self._handler)
        os.close(self._read_fd)
        os.close(self._write_fd)

    def wait(self, timeout_s: float) -> None:
        """Returns after the time, or sooner with a signal."""
        if select.select([self._read_fd], [], [], timeout_s)[0]:
            os.read(self._read_fd, 4096)


def _blame_order(rank: _Rank) -> tuple[bool, bool, float]:
    """The rank to blame comes first: others often fail only because it has gone.

    Want of memory is never such a consequence. A rank ended by a signal is seen later than its
    peers' complaints about that, so it goes before them; an abort is how a peer may complain.
    """
    found = rank.ending()
    silent = found.signal is not None and found.signal != signal.SIGABRT
    return (found.outcome != "out_of_memory", not silent, rank.ended_s)


def _signal_ending(number: int) -> End:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        return End("killed", f"killed by {name}", signal=number)
    return End("failed", f"crashed with {name}; see worker.log", signal=number)


def _read_last_word(path: str) -> RankEnd | None:
    """The last event of a rank; None where it left none."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return None
    for line in reversed(lines):
        try:
            event = parse_event(json.loads(line))
        except (ValueError, CheckError):
            continue
        if isinstance(event, RankEnd):
            return event
    return None


def _print_bytes(data: bytes) -> None:
    """Writes to this process's own output; a full disk loses the words, not the training."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(1, view) :]
    except OSError:
        pass


def _find_free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
