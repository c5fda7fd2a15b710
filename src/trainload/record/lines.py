"""Reading append-only JSON lines that may end, or be torn, anywhere.

A damaged line is counted and passed over; nothing here raises for content.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from trainload.errors import RecordError
from trainload.record.inside import (
    LARGEST_LINES_BYTES,
    open_inside,
    parse_json,
    read_end,
    split_lines,
)
from trainload_worker.protocol.checked import CheckError
from trainload_worker.protocol.events import Event, parse_event


@dataclass(kw_only=True)
class LineReader:
    """Reads a file of JSON lines from where it last stopped; keeps an unfinished last line back."""

    path: Path
    offset_bytes: int = 0
    damaged_lines: int = 0
    _end_bytes: int = 0
    _in_long_line: bool = False

    def read_new(self) -> list[Any]:
        """Values of the whole lines appended since the last call; [] where the file is absent."""
        return list(self._read())

    def read_rest(self) -> list[Any]:
        """As `read_new`, and the unfinished last line counts as damaged."""
        values = self.read_new()
        left = self._end_bytes - self.offset_bytes
        if left > 0:
            self.offset_bytes += left
            self.damaged_lines += 1
        return values

    def read_some(self, most_bytes: int) -> tuple[list[Any], bool]:
        """As `read_new`, of at most so many bytes, and whether there may be more.

        A line longer than that counts as damaged: for who follows a file of a stranger.
        """
        try:
            with open_inside(self.path, largest_bytes=LARGEST_LINES_BYTES) as file:
                file.seek(self.offset_bytes)
                data = file.read(most_bytes)
        except FileNotFoundError:
            return [], False
        except OSError as error:
            raise RecordError(f"cannot read {self.path}: {error.strerror}") from error
        more = len(data) == most_bytes
        *lines, rest = data.split(b"\n")
        self.offset_bytes += len(data) - len(rest)
        if lines and self._in_long_line:
            lines[0], self._in_long_line = b"", False
        if not lines and more:
            self.damaged_lines += not self._in_long_line
            self.offset_bytes += len(data)
            self._in_long_line = True
        values = [parse_line(line) for line in lines if line]
        self.damaged_lines += sum(value is None for value in values)
        return [value for value in values if value is not None], more

    def _read(self) -> Iterator[Any]:
        try:
            with open_inside(self.path, largest_bytes=LARGEST_LINES_BYTES) as file:
                file.seek(self.offset_bytes)
                for line, after in split_lines(file):
                    self.offset_bytes = after
                    value = parse_line(line) if line else None
                    if value is not None:
                        yield value
                    elif line != b"":
                        self.damaged_lines += 1
                self._end_bytes = file.tell()
        except FileNotFoundError:
            self._end_bytes = 0
        except OSError as error:
            raise RecordError(f"cannot read {self.path}: {error.strerror}") from error


@dataclass(kw_only=True)
class EventReader:
    """Reads a worker's events from where it last stopped; counts lines that hold none."""

    lines: LineReader

    @property
    def damaged_lines(self) -> int:
        """Lines that were torn, or whose event is not sound."""
        return self.lines.damaged_lines

    def read_new(self) -> list[Event]:
        """Events of the whole lines appended since the last call; kinds unknown here left out."""
        return self._parse(self.lines.read_new())

    def read_rest(self) -> list[Event]:
        """As `read_new`, and the unfinished last line counts as damaged."""
        return self._parse(self.lines.read_rest())

    def read_some(self, most_bytes: int) -> tuple[list[Event], bool]:
        """As `read_new`, of at most so many bytes, and whether there may be more."""
        values, more = self.lines.read_some(most_bytes)
        return self._parse(values), more

    def _parse(self, values: list[Any]) -> list[Event]:
        found = []
        for value in values:
            try:
                event = parse_event(value)
            except CheckError:
                self.lines.damaged_lines += 1
                continue
            if event is not None:
                found.append(event)
        return found


def read_events(path: Path) -> tuple[list[Event], int]:
    """All events of a file, and how many of its lines are damaged."""
    reader = EventReader(lines=LineReader(path=path))
    return reader.read_rest(), reader.damaged_lines


def parse_line(line: bytes) -> Any:
    """The value of one line; None where it is damaged (a bare `null` counts as damaged)."""
    try:
        return parse_json(line, parse_constant=_refuse_constant)
    except ValueError:
        return None


def read_tail(path: Path, size_bytes: int = 65536) -> list[Any]:
    """Values of the whole, sound lines within the last `size_bytes` of a file; [] if absent."""
    try:
        data, cut = read_end(path, size_bytes)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error
    lines = data.split(b"\n")
    if cut:
        lines = lines[1:]
    return [value for value in map(parse_line, filter(None, lines)) if value is not None]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a parsed value is a usable number: not a boolean, and within a float's range."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
