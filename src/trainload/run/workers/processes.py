"""Starting the two child processes of a run, the worker and the sampler, and ending them.

Knows how to start, talk to and stop them; what a run's end means is decided elsewhere.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import trainload
from trainload.errors import WorkerError
from trainload.files import OwnDescriptor
from trainload.hardware import Setting
from trainload.run.sampling.config import SamplerConfig
from trainload.run.workers.output import ScriptOutput
from trainload_worker.protocol.spec import AnySpec, dump_spec

_PACKAGE_ROOT = Path(trainload.__file__).resolve().parent.parent

# The worker may run in another environment's interpreter: it is loaded from its own folder
# alone, so that nothing else of this environment comes along. `-c` puts the current folder on the
# path, where a user's random.py would stand in for the standard library's: it is taken off first.
_WORKER_BOOTSTRAP = """
import sys
sys.path[:] = [entry for entry in sys.path if entry]
import importlib.util
path = sys.argv.pop(1)
spec = importlib.util.spec_from_file_location(
    "trainload_worker", path + "/__init__.py", submodule_search_locations=[path])
module = importlib.util.module_from_spec(spec)
sys.modules["trainload_worker"] = module
spec.loader.exec_module(module)
from trainload_worker.__main__ import main
sys.exit(main())
"""


_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_SAMPLER_BOOTSTRAP = """
import sys
sys.path[:] = [entry for entry in sys.path if entry]
from trainload.run.sampling.sampler import main
sys.exit(main())
"""


class ExitWatch:
    """Tells of a process's end without polling it, where the system offers that (pidfd)."""

    def __init__(self, pid: int) -> None:
        try:
            self._own: OwnDescriptor | None = OwnDescriptor(os.pidfd_open(pid))
        except (AttributeError, OSError):
            self._own = None

    @property
    def fd(self) -> int | None:
        """What becomes readable at its end; None where it must be polled."""
        return None if self._own is None else self._own.fd

    def close(self) -> None:
        """Give the descriptor back; harmless when called twice."""
        if self._own is not None:
            self._own.close()


def wait_for_any_exit(watches: Sequence[ExitWatch], timeout_s: float) -> None:
    """Return when one of the processes has ended or the time is over."""
    fds = [watch.fd for watch in watches if watch.fd is not None]
    if len(fds) < len(watches):
        time.sleep(max(0.0, min(timeout_s, 0.05)))
    else:
        select.select(fds, [], [], max(0.0, timeout_s))


def worker_command(python: str) -> list[str]:
    """The words that start a worker of this version in an interpreter."""
    return [python, "-c", _WORKER_BOOTSTRAP, str(_PACKAGE_ROOT / "trainload_worker")]


class WorkerProcess:
    """The training process, in a session of its own so that Ctrl-C reaches the driver alone.

    What it prints goes to its log at once, or where `output` takes it.
    """

    def __init__(
        self,
        python: str,
        log_path: Path,
        environment: Mapping[str, str],
        output: ScriptOutput | None = None,
        stdin: int | None = None,
    ) -> None:
        self._output = output
        self.stdin_fd = None if stdin is None else _duplicate(stdin)
        """By which number the worker finds what the program is to read from; None for nothing."""
        handed = () if self.stdin_fd is None else (self.stdin_fd,)
        try:
            if output is None:
                with log_path.open("ab") as log:
                    self._process = _start(python, environment, log, subprocess.STDOUT)
            else:
                self._process = _start(python, environment, output.stdout, output.stderr, handed)
                output.begin()
        except OSError as error:
            if output is not None:
                output.abandon()
            raise WorkerError(f"cannot start {python}: {error.strerror}") from error
        finally:
            for fd in handed:
                os.close(fd)
        self.pid = self._process.pid
        self._exit = ExitWatch(self.pid)

    def send_spec(self, spec: AnySpec) -> None:
        """Hand over the specification; a worker that is already gone is seen at its end."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(dump_spec(spec))
        except BrokenPipeError:
            pass
        self._close_stdin()

    def wait(self, timeout_s: float, *others: ExitWatch) -> int | None:
        """The exit status, negative for a signal; None if it still runs.

        Returns early when one of the other processes has ended.
        """
        deadline_s = time.monotonic() + timeout_s
        while self._process.poll() is None and (left_s := deadline_s - time.monotonic()) > 0:
            wait_for_any_exit([self._exit, *others], left_s)
            if others:
                break
        return self._process.poll()

    def signal_all(self, number: int) -> None:
        """Send a signal to the worker and all it has started."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # it has ended already

    def end(self, grace_s: float, first: int = signal.SIGTERM) -> int:
        """Ask with a signal, then insist with SIGKILL after the grace time."""
        self.signal_all(first)
        status = self.wait(grace_s)
        if status is None:
            self.signal_all(signal.SIGKILL)
            status = self._process.wait()
        return status

    def sweep(self) -> None:
        """End the worker and whatever it has left running behind it."""
        self.signal_all(signal.SIGKILL)
        self._process.wait()
        self._exit.close()
        self._close_stdin()
        if self._output is not None:
            self._output.finish()

    @property
    def output_problem(self) -> str | None:
        """Why not all it printed was handed on or kept; None where it was."""
        return None if self._output is None else self._output.problem

    def _close_stdin(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # the worker ended before it read its specification


def _duplicate(fd: int) -> int | None:
    """A descriptor of the same file; None where it is closed."""
    try:
        return os.dup(fd)
    except OSError:
        return None


def _start(
    python: str,
    environment: Mapping[str, str],
    stdout: IO[bytes] | int,
    stderr: int,
    handed: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        worker_command(python),
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        env=dict(environment),
        start_new_session=True,
        pass_fds=handed,
    )


class SamplerProcess:
    """The sampler as its driver sees it."""

    def __init__(self, config: SamplerConfig, log_path: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": _python_path()}
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        # Both stand in the process that trains, where `trainload.watch` measures.
        self._words, self._answers = OwnDescriptor(ours_out), OwnDescriptor(ours_in)
        try:
            with log_path.open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _SAMPLER_BOOTSTRAP],
                    stdin=theirs_in,
                    stdout=theirs_out,
                    stderr=log,
                    env=environment,
                    start_new_session=True,
                )
        except OSError as error:
            self._close_pipes()
            raise WorkerError(f"cannot start the sampler: {error}") from error
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        os.set_blocking(ours_in, False)
        self.pid = self._process.pid
        self.exit_watch = ExitWatch(self.pid)
        self._rest = b""
        self._say(json.dumps(asdict(config)))

    def wait_ready(self, timeout_s: float = 30.0) -> dict[str, Any]:
        """Its first message: meters and columns; WorkerError when it does not come."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            for message in self.read_messages(0.2):
                if message.get("ready"):
                    return message
            if self._process.poll() is not None:
                break
        self.kill()
        raise WorkerError("the sampler did not start; its words stand in sampler.log")

    def start_blocks(self, block_s: float, cycle_s: float, count: int) -> None:
        """Ask for alternating pauses from now on."""
        self._say(f"blocks {block_s:.6f} {cycle_s:.6f} {count}")

    def say(self, word: str) -> None:
        """Send a word such as pause or resume."""
        self._say(word)

    @property
    def ended(self) -> int | None:
        """Its exit status once it has ended; None while it runs."""
        return self._process.poll()

    def stop(self, timeout_s: float = 5.0) -> dict[str, Any] | None:
        """End it and return its statistics; None where it could not tell them any more."""
        if self._words.fd is None:
            return None  # given up already
        self._say("stop")
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            for message in self.read_messages(0.1):
                if "stats" in message:
                    self._process.wait(timeout=max(0.1, deadline_s - time.monotonic()))
                    self.kill()
                    stats: dict[str, Any] = message["stats"]
                    return stats
            if self._process.poll() is not None:
                break
        self.kill()
        return None

    def kill(self) -> None:
        """End it at once, if it still runs, and give back what it took here."""
        self._process.kill()
        self._process.wait()
        self.exit_watch.close()
        self._close_pipes()

    def read_messages(self, timeout_s: float) -> list[dict[str, Any]]:
        """Messages that came within the time."""
        fd = self._answers.fd
        if fd is None:
            return []
        if not select.select([fd], [], [], timeout_s)[0]:
            return []
        data = os.read(fd, 1 << 20)
        if not data:
            time.sleep(min(timeout_s, 0.01))
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines if line]

    def _say(self, word: str) -> None:
        fd = self._words.fd
        if fd is None:
            return
        try:
            os.write(fd, word.encode() + b"\n")
        except BrokenPipeError:
            pass  # it is gone; `ended` tells

    def _close_pipes(self) -> None:
        self._words.close()
        self._answers.close()


def worker_environment(
    setting: Setting,
    variables: Mapping[str, str] = MappingProxyType({}),
    *,
    threads: bool = True,
) -> dict[str, str]:
    """The environment that makes a framework keep to the setting; `variables` win over it.

    Without `threads` their number is left to whoever set it, or to the libraries.
    """
    return {
        **os.environ,
        **(dict.fromkeys(_THREADS, str(setting.threads)) if threads else {}),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(a.uuid for a in setting.accelerators),
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        # The tracer would print two lines into the program's output at every window.
        "KINETO_LOG_LEVEL": os.environ.get("KINETO_LOG_LEVEL", "99"),
        **variables,
    }


def _python_path() -> str:
    """This package's root first, so that the sampler is of this very version."""
    before = os.environ.get("PYTHONPATH")
    return f"{_PACKAGE_ROOT}{os.pathsep}{before}" if before else str(_PACKAGE_ROOT)
