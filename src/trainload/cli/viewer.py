"""The viewer of a run in the same terminal: `trainload live` as a process of its own.

It reads the run's files as any other viewer; whatever becomes of it, the run goes on.
"""

from __future__ import annotations

import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainload.cli.progress import ProgressLine

if TYPE_CHECKING:
    from trainload.run import RunProgress
    from trainload.run.workers.output import Stream

END_S = 5.0
"""How long a viewer may take to see that the run has ended."""
_LEAVE_SCREEN = "\033[?1049l\033[?25h\033[?1000l\033[?1003l\033[?1006l\033[?2004l\033[<u"
"""What a viewer that was killed could not say: the usual screen, a cursor, no mouse."""


class Viewer:
    """Starts the viewer once the run directory is there; used as a context around the run.

    While its screen is up nothing else is written to the terminal: a script's words are in its log.
    """

    def __init__(
        self,
        line: ProgressLine,
        show: Callable[[RunProgress], None] | None,
        *,
        screen: bool,
        options: list[str],
    ) -> None:
        self._line, self._show = line, show
        self._screen, self._options = screen, options
        self._process: subprocess.Popen[bytes] | None = None
        self._terminal: list[Any] | None = None

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_ending: object) -> None:
        process = self._process
        if process is None:
            return
        for end in (None, process.terminate, process.kill):
            if end is not None:
                end()
            try:
                process.wait(END_S)
                break
            except subprocess.TimeoutExpired:
                continue
        self._restore()

    def __call__(self, progress: RunProgress) -> None:
        """Take the run's progress: the first starts the viewer, later ones fill its absence."""
        if self._process is None and progress.path is not None:
            self._start(progress.path)
        if not self._covered and self._show is not None:
            self._show(progress)

    @property
    def _covered(self) -> bool:
        """Whether the screen has the terminal."""
        if not self._screen or self._process is None:
            return False
        if self._process.poll() is None:
            return True
        self._restore()
        return False

    def _start(self, path: Path) -> None:
        """Start the process; OSError where there is no terminal any more."""
        if self._screen:
            self._line.clear()
            try:
                self._terminal = termios.tcgetattr(sys.stdin.fileno())
            except termios.error as error:
                raise OSError(*error.args) from error  # as who shows progress may meet it
        words = [sys.executable, "-m", "trainload", "live", str(path.resolve()), "--attached"]
        self._process = subprocess.Popen([*words, *self._options])

    def _restore(self) -> None:
        """Leave the terminal as it was, whatever the viewer left."""
        if self._terminal is not None and self._process is not None:
            if self._process.returncode != 0:
                sys.stderr.write(_LEAVE_SCREEN)
                sys.stderr.flush()
            modes, self._terminal = self._terminal, None
            try:
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, modes)
            except termios.error:
                pass  # the terminal is gone: no reason to end a training

    def is_terminal(self, stream: Stream) -> bool:
        """As the progress line says."""
        return self._line.is_terminal(stream)

    def is_one_place(self) -> bool:
        """As the progress line says."""
        return self._line.is_one_place()

    def size(self) -> tuple[int, int]:
        """As the progress line says."""
        return self._line.size()

    def write(self, stream: Stream, data: bytes) -> None:
        """A script's words, as they are; not while the screen is up."""
        if not self._covered:
            self._line.write(stream, data)
