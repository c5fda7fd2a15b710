"""What a script prints, handed on while it runs and kept in its log; understands none of it.

Where our own stream is a terminal the script's is one too, of the same size, so that it prints as
it would by itself: progress bars, colours, line by line.
"""

import contextlib
import fcntl
import os
import re
import select
import struct
import termios
import threading
import time
from io import FileIO
from pathlib import Path
from typing import Literal, Protocol

Stream = Literal["stdout", "stderr"]

_READ_BYTES = 1 << 16
_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031  # fcntl.F_SETPIPE_SZ, which Python names on Linux alone
_PAUSE_S = 0.03
"""Between two looks: a script that prints at each step does not wake us at each."""
_MUCH_BYTES = 1 << 10
"""A terminal's buffer holds 4 KiB: after this much the next look comes at once."""
_LAST_S = 5.0
"""How long the last words may take to be written where nobody reads them."""
_WARNING = rb"(?:\[rank \d+\] )?(?:\[rank\d+\]:)?\[W\d[^\]\n]*"
"""How torch begins one, in a process group too, and with our mark of a rank before it."""
_WINDOWS_WORDS = re.compile(_WARNING + rb"CPUAllocator\.cpp:\d+\] Memory block of unknown [^\n]*\n")
"""What torch says in a window that watches memory; without us the script would not print it."""
_BEGUN = re.compile(_WARNING + rb"(?:\] Memory [^\n]*)?")
"""A line without its end that may become one of those."""


class Echo(Protocol):
    """Where a script's words go beside its log."""

    def is_terminal(self, stream: Stream) -> bool:
        """Whether the script should find a terminal there."""

    def is_one_place(self) -> bool:
        """Whether both streams end at the same place, so that their order matters."""

    def size(self) -> tuple[int, int]:
        """Columns and lines of the terminal."""

    def write(self, stream: Stream, data: bytes) -> None:
        """Takes what the script has printed; OSError or ValueError where it cannot any more."""


class ScriptOutput:
    """The two streams of a script, from before its start to after its end.

    `stdout` and `stderr` are descriptors for the process; `begin` when it has them, `finish` when
    it has ended. The script never writes to our disk itself: where that is full the log ends, and
    the script notices nothing.
    """

    def __init__(self, echo: Echo | None, log_path: Path) -> None:
        self._echo = echo
        self._log: FileIO | None = log_path.open("ab", buffering=0)
        self.stdout, ours = _open_channel(echo, "stdout")
        self._channels: dict[int, Stream] = {ours: "stdout"}
        self._begun: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}
        self.stderr = self.stdout
        if echo is not None and not echo.is_one_place():
            self.stderr, ours = _open_channel(echo, "stderr")
            self._channels[ours] = "stderr"
        self._terminals = [
            fd for fd, name in self._channels.items() if echo is not None and echo.is_terminal(name)
        ]
        self._size = (0, 0)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="script-output", daemon=True)
        self.problem: str | None = None
        """Why not all of it was handed on or kept; None where it was."""

    def begin(self) -> None:
        """The process has its ends of the streams: they are closed here."""
        self._close_theirs()
        self._thread.start()

    def abandon(self) -> None:
        """No process was started."""
        self._close_theirs()
        self._close()

    def finish(self) -> None:
        """Hands on what is left; harmless when called twice."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._thread.join(_LAST_S)

    def _follow(self) -> None:
        try:
            while self._channels:
                ended = self._ended.is_set()
                self._follow_size()
                passed = self._pass_on(0.0 if ended else 0.2)
                if ended and not passed:
                    break
                if not ended and passed < _MUCH_BYTES:
                    time.sleep(_PAUSE_S)
            for stream, rest in self._begun.items():
                if rest:
                    self._hand_on(stream, rest)
        finally:
            self._close()

    def _pass_on(self, timeout_s: float) -> int:
        """Bytes that were there to read within the time, after handing them on."""
        passed = 0
        for fd in select.select(list(self._channels), [], [], timeout_s)[0]:
            try:
                data = os.read(fd, _READ_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                data = b""  # a terminal that nobody holds any more
            if not data:
                os.close(fd)
                del self._channels[fd]
                continue
            passed += len(data)
            self._keep(self._channels[fd], data)
        return passed

    def _keep(self, stream: Stream, data: bytes) -> None:
        data = self._begun[stream] + data
        last = data.rfind(b"\n") + 1
        end = last if _BEGUN.fullmatch(data, last) else len(data)
        data, self._begun[stream] = data[:end], data[end:]
        if b"CPUAllocator" in data:
            data = _WINDOWS_WORDS.sub(b"", data)
        if data:
            self._hand_on(stream, data)

    def _hand_on(self, stream: Stream, data: bytes) -> None:
        self._write_log(data)
        if self._echo is None:
            return
        try:
            self._echo.write(stream, data)
        except (OSError, ValueError) as error:
            self._echo = None
            self.problem = f"what the script printed could not be shown any more: {error}"

    def _write_log(self, data: bytes) -> None:
        """Keeps it; from the first failure on nothing more, so that the log has no gap."""
        if self._log is None:
            return
        view = memoryview(data)
        try:
            while view:
                view = view[self._log.write(view) or 0 :]
        except OSError as error:
            self.problem = f"the log is cut: what the script printed did not fit ({error.strerror})"
            self._close_log()

    def _close_log(self) -> None:
        if self._log is not None:
            with contextlib.suppress(OSError):
                self._log.close()
            self._log = None

    def _follow_size(self) -> None:
        """Gives the script's terminal the size of ours, as it is now."""
        if self._echo is None or not self._terminals:
            return
        size = self._echo.size()
        if size != self._size:
            self._size = size
            columns, lines = size
            for fd in self._terminals:
                with contextlib.suppress(OSError):
                    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _close_theirs(self) -> None:
        for fd in {self.stdout, self.stderr}:
            os.close(fd)

    def _close(self) -> None:
        for fd in list(self._channels):
            os.close(fd)
        self._channels.clear()
        self._close_log()


def _open_channel(echo: Echo | None, stream: Stream) -> tuple[int, int]:
    """The script's end and ours of a terminal, or of a pipe where our stream is none."""
    if echo is None or not echo.is_terminal(stream):
        ours, theirs = os.pipe()
        with contextlib.suppress(OSError):
            fcntl.fcntl(ours, _F_SETPIPE_SZ, _PIPE_BYTES)
    else:
        ours, theirs = os.openpty()
        attributes = termios.tcgetattr(theirs)
        attributes[1] &= ~termios.OPOST  # line ends are turned by the terminal that shows them
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
        columns, lines = echo.size()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    os.set_blocking(ours, False)
    return theirs, ours
