"""Opening a Kineto trace, ours or anyone's: its header, and its events window by window.

Tells what a file is and where it breaks; explains no event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

from trainload.analyse.attribution._stream import Broken, JsonText, Progress, open_bytes
from trainload.analyse.attribution.events import Window
from trainload.errors import TraceError
from trainload.record.inside import open_inside

_MARKER = "trainload.window"
_MOST_WINDOWS = 1 << 31
_NO_TRACE = "is no trace of torch's profiler; pass a file of export_chrome_trace"


class TraceReader(AbstractContextManager["TraceReader"]):
    """One trace being read; `header` is known at once, `notes` once the windows are read."""

    def __init__(self, path: Path, file: IO[bytes], progress: Progress | None) -> None:
        self.path = path
        self.header: Mapping[str, Any] | None = None
        self.scalars: dict[str, Any] = {}
        self.notes: list[str] = []
        self._file = file
        self._data = open_bytes(path, file, progress)
        self._text = JsonText(self._data)
        self._seen = 0
        self._bare = False
        self._started = self._read_head()

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def windows(self) -> Iterator[Window]:
        """The windows in order of the file, each complete; to be read once.

        TraceError where no event of torch's profiler is found in any.
        """
        window, begun, kept = Window(0), False, 0
        try:
            for event in self._events():
                if type(event) is dict and event.get("name") == _MARKER:
                    if begun:
                        kept += window.events
                        yield window
                    begun = True
                    arguments = event.get("args")
                    index = arguments.get("index") if isinstance(arguments, dict) else None
                    window = Window(_number(index, window.index + 1))
                    continue
                self._seen += 1
                window.add(event)
        except Broken:
            self.notes.append(f"truncated: {self._seen} events read")
        kept += window.events
        if not kept:
            raise TraceError(f"{self.path} {_NO_TRACE}")
        if window.events or begun:
            yield window

    def _events(self) -> Iterator[Any]:
        if self._started:
            yield from self._text.elements()
            if self._bare:
                return
            self._read_members(until_events=False)

    def _read_head(self) -> bool:
        """Read up to the first event; False where the file holds no array of events."""
        opening = self._text.peek()
        if not opening:
            what = "breaks off at once" if self._data.damaged else "is empty"
            raise TraceError(f"{self.path} {what}; trace again")
        if opening not in "{[":
            raise TraceError(f"{self.path} is not JSON, so no trace; pass a file of Kineto's")
        if opening == "[":
            self._bare = True
            return True
        try:
            self._text.skip("{")
            return self._read_members(until_events=True)
        except Broken as error:
            raise TraceError(f"{self.path} breaks off before its first event; trace again") from (
                error
            )

    def _read_members(self, *, until_events: bool) -> bool:
        """Members of the outer object; True where `traceEvents` comes next."""
        while True:
            following = self._text.peek()
            if following == ",":
                self._text.skip(",")
                continue
            if following == "}":
                return False
            key = self._text.value()
            if not isinstance(key, str):
                raise Broken
            self._text.skip(":")
            if key == "traceEvents" and until_events and self._text.peek() == "[":
                return True
            value = self._text.value()
            if key == "trainload" and isinstance(value, dict):
                self.header = value
            elif isinstance(value, str | int | float | bool):
                self.scalars[key] = value


def open_trace(
    path: Path, *, progress: Progress | None = None, inside: bool = False
) -> TraceReader:
    """Open a trace, plain or gzip by its bytes; TraceError where it is none.

    `inside` a run directory, which may come from a stranger, no link is followed.
    """
    if path.is_dir():
        raise TraceError(f"{path} is a folder; pass one trace file in it")
    try:
        file = open_inside(path) if inside else path.open("rb")
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        return TraceReader(path, file, progress)
    except BaseException:
        file.close()
        raise


def _number(index: Any, missing: int) -> int:
    """A window's number as its marker tells it; `missing` where that is none."""
    return index if type(index) is int and 0 <= index < _MOST_WINDOWS else missing
