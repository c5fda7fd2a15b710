"""A run or study while it goes on, from Python: views to draw and commands to a running run.

Only reads the files of a run, a look at a time; a command is a small file that its driver takes.
Prints and draws nothing.
"""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

from trainload.analyse.live import LiveState, LiveView
from trainload.errors import MissingPart, RecordError, TrainloadError
from trainload.record import is_held
from trainload.record.control import Command, Verb, send_command, withdraw_command
from trainload.record.follow import RunFollower
from trainload.record.layout import EVENTS, MANIFEST

if TYPE_CHECKING:
    from trainload.analyse.live import LiveLayers
    from trainload.study.status import StudyStatus

LOOK_S = 0.4
"""Views asked for within this time are of one look."""
CATCH_UP_S = 0.25
"""For how long one look may read on where much is there already."""
ANSWER_S = 3.0
"""Within which a driver takes a command; it looks twice a second."""
STUDY_LOOK_S = 2.0
LAYERS_REST_S, LAYERS_REST = 20.0, 50
"""Between two windows worked out: seconds, and times what the last one took."""
_SAID: dict[Verb, str] = {
    "end": "the run ends: its record is being closed",
    "trace": "a window is asked for; its layers come when it is saved",
    "mark": "marked",
}


class LiveRun:
    """One run, followed from outside; RecordError where the path is none. Safe between threads."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._follower = RunFollower(self.path)
        self._lock = threading.Lock()
        self._looked_s = float("-inf")
        self._settled = False
        self._layers_at_s = float("-inf")
        self._layers_of: int | None = None
        self._layers_thread: threading.Thread | None = None
        look = self._follower.look()
        self._state = LiveState(look.manifest)
        self._state.take(look)

    @property
    def running(self) -> bool:
        """Whether it went on when it was last looked at."""
        return self._state.standing == "running"

    def view(self) -> LiveView:
        """The run now; of a long one the first views may not have caught up yet."""
        with self._lock:
            now_s = time.monotonic()
            if not self._settled and now_s - self._looked_s >= LOOK_S:
                self._looked_s = now_s
                self._look(now_s)
            self._consider_layers(now_s)
            return self._state.view(time.monotonic())

    def command(self, verb: str, *, words: str = "", t_s: float | None = None) -> str:
        """Ask a running run to `end`, to `trace` a window, to `mark` a moment; the answer in words.

        Waits up to ANSWER_S until the run's driver has taken it.
        """
        view, asked = self.view(), cast("Verb", verb)
        if view.standing != "running":
            return "the run does not go on any more"
        if asked == "trace" and not view.traces:
            return view.layers_note or "layers are not traced in this run"
        try:
            command = Command(verb=asked, run_id=view.run_id or "", t_s=t_s, words=words)
            path = send_command(self.path, command)
            until_s = time.monotonic() + ANSWER_S
            while time.monotonic() < until_s:
                if not path.exists():
                    return self._answer(asked)
                time.sleep(0.05)
            if not withdraw_command(path):
                return self._answer(asked)
        except RecordError as error:
            return str(error)
        return "the run takes no commands: it belongs to another user, or is watched from within"

    def _answer(self, verb: Verb) -> str:
        if verb == "trace":
            self._layers_at_s = float("-inf")
        return _SAID[verb]

    def _look(self, now_s: float) -> None:
        look = self._follower.look()
        self._state.take(look)
        while look.more and time.monotonic() - now_s < CATCH_UP_S:
            look = self._follower.look()
            self._state.take(look)
        if look.standing == "ended" and not look.more:
            # The outcome is written after the last line; sealing then removes the lines.
            if not (self.path / EVENTS).exists():
                self._read_tables()
            self._settled = True

    def _read_tables(self) -> None:
        from trainload.analyse.live.sealed import state_of_tables
        from trainload.api.loading import load

        try:
            run = load(self.path, seal=False)
            layers = self._state.layers
            self._state = state_of_tables(run)
            self._state.layers = layers
        except (MissingPart, RecordError) as error:
            self._state.note(str(error))

    def _consider_layers(self, now_s: float) -> None:
        """Work out the newest window, or those of a run that has ended, in a thread of its own."""
        window, busy = self._state.window, self._layers_thread
        number = -1 if self._settled else None if window is None else window.index
        if number is None or number == self._layers_of or now_s < self._layers_at_s:
            return
        if (busy is not None and busy.is_alive()) or self._state.manifest.layers is None:
            return
        self._layers_of = number
        self._state.works_out_layers = True
        self._layers_thread = threading.Thread(target=self._work_out, args=(number,), daemon=True)
        self._layers_thread.start()

    def _work_out(self, number: int) -> None:
        _give_way()
        begun_s = time.thread_time()
        found, problem = None, None
        try:
            found = self._layers(number)
        except TrainloadError as error:
            problem = str(error)
        spent_s = time.thread_time() - begun_s
        with self._lock:
            self._state.works_out_layers = False
            self._layers_at_s = time.monotonic() + max(LAYERS_REST_S, LAYERS_REST * spent_s)
            if found is not None:
                self._state.layers = found
            elif problem is not None:
                self._state.note(problem)

    def _layers(self, number: int) -> LiveLayers | None:
        if importlib.util.find_spec("polars") is None:
            raise MissingPart("layers need polars; pip install 'trainload[report]'")
        from trainload.analyse.live.layers import live_layers, read_window_layers

        if number >= 0:
            window = self._state.window
            assert window is not None, "a number is a window's"
            return read_window_layers(self.path, window, self._state.modules)
        from trainload.api.loading import load

        found = load(self.path, seal=False).attribution
        return None if found is None else live_layers(found.ranks[0], found.ranks[0].cost.windows)


class LiveStudy:
    """One study's folder, looked at now and then; StudyError where it is none."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder)
        self._lock = threading.Lock()
        self._looked_s = float("-inf")
        self._status: StudyStatus | None = None
        self.status()

    @property
    def running(self) -> bool:
        """Whether a process runs it now."""
        return is_held(self.path)

    def status(self) -> StudyStatus:
        """How far it is; within two seconds, or where it cannot be read any more, as before."""
        from trainload.api.studying import status

        with self._lock:
            now_s = time.monotonic()
            if self._status is None:
                self._status, self._looked_s = status(self.path), now_s
            elif now_s - self._looked_s >= STUDY_LOOK_S:
                self._looked_s = now_s
                try:
                    self._status = status(self.path)
                except TrainloadError:
                    pass  # as while its files are being replaced, or the folder is gone
            return self._status

    def stop(self) -> str:
        """Have it finish the running cell and end; what became of that, in words."""
        from trainload.api.studying import stop

        try:
            asked = stop(self.path)
        except TrainloadError as error:
            return str(error)
        return "ends when the running cell has" if asked else "no process runs it"


def follow(place: str | Path) -> LiveRun | LiveStudy:
    """What a path holds, followed: a run directory or a study's folder; RecordError for neither."""
    from trainload.study.folder import STUDY

    path = Path(place)
    study = (path / STUDY).is_file() and not os.path.lexists(path / MANIFEST)
    return LiveStudy(path) if study else LiveRun(path)


def _give_way() -> None:
    """Let this thread run only where nobody else wants the core."""
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
    except (AttributeError, OSError):
        pass  # elsewhere than on Linux a thread has no priority of its own
