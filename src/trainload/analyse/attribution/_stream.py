"""JSON read in pieces from a plain or gzip file, so that a trace of any size needs little memory.

Knows JSON and gzip, nothing of traces; what is broken is told by `Broken`, never by another error.
"""

from __future__ import annotations

import codecs
import json
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from trainload.record.inside import most_unpacked

_CHUNK = 1 << 20
_LARGEST_VALUE = 1 << 24
"""Characters one value may have; a longer one is taken for damage."""
_GZIP_MAGIC = b"\x1f\x8b"
_SPACE = re.compile(r"[ \t\r\n]*")
_BETWEEN = re.compile(r"[ \t\r\n,]*")

Progress = Callable[[float], None]
"""Called now and then with the fraction of the file that was read."""


class Broken(Exception):
    """The text ends early or is no JSON; what was read before it stands."""


class Bytes:
    """The bytes of a file, unpacked where they begin as gzip does."""

    def __init__(self, file: IO[bytes], size: int, progress: Progress | None) -> None:
        self._file, self._size, self._progress = file, size, progress
        # Kept instead of sought back to: a pipe cannot go back.
        self._head = file.read(2)
        self._unpack = zlib.decompressobj(31) if self._head == _GZIP_MAGIC else None
        self._packed = b""
        self._packed_bytes = self._given_bytes = 0
        self._begun = False
        self.damaged = False

    def read(self, count: int) -> bytes:
        """At most `count` bytes; none at the end, also where the packing ends early."""
        if self._unpack is None:
            return self._raw(count)
        while not self.damaged:
            if not self._packed:
                self._packed = self._raw(_CHUNK)
                self._packed_bytes += len(self._packed)
            if not self._packed:
                self.damaged = self._begun
                return b""
            if self._unpack.eof:
                self._unpack = zlib.decompressobj(31)
            self._begun = True
            try:
                data = self._unpack.decompress(self._packed, count)
            except zlib.error:
                self.damaged = True
                return b""
            self._packed = self._unpack.unconsumed_tail
            if self._unpack.eof:
                # Another member may follow; padding of zeros may too.
                self._packed, self._begun = self._unpack.unused_data.lstrip(b"\0"), False
            if data:
                return self._given(data)
        return b""

    def _given(self, data: bytes) -> bytes:
        """The same; from where it is more than was packed honestly, the file ends for us."""
        self._given_bytes += len(data)
        self.damaged = self._given_bytes > most_unpacked(self._packed_bytes)
        return b"" if self.damaged else data

    def _raw(self, count: int) -> bytes:
        data, self._head = self._head, b""
        if data:
            return data
        try:
            data = self._file.read(count)
        except OSError:
            self.damaged = True
            return b""
        if self._progress is not None and self._size:
            self._progress(min(1.0, self._file.tell() / self._size))
        return data


class JsonText:
    """A place in a JSON text that moves forward only."""

    def __init__(self, data: Bytes) -> None:
        self._data = data
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")
        self._text, self._at, self._ended = "", 0, False
        # Numbers with a point stay text: nanoseconds are cut from it exactly.
        self._exact = json.JSONDecoder(parse_float=str)
        self._plain = json.JSONDecoder()

    def peek(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def skip(self, character: str) -> None:
        """Step over one character that must come next."""
        if self.peek() != character:
            raise Broken
        self._at += 1

    def value(self) -> Any:
        """The next value, numbers as numbers."""
        if not self.peek():
            raise Broken
        return self._scan(self._plain)

    def elements(self) -> Iterator[Any]:
        """The values of the array that comes next, numbers with a point as text."""
        self.skip("[")
        scan = self._exact.raw_decode
        while True:
            self._at = _BETWEEN.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at >= len(self._text):
                if not self._more():
                    raise Broken
                continue
            if self._text[self._at] == "]":
                self._at += 1
                return
            try:
                value, end = scan(self._text, self._at)
            except (ValueError, RecursionError):
                value = self._scan(self._exact)
            else:
                self._at = end
            yield value

    def _scan(self, decoder: json.JSONDecoder) -> Any:
        while True:
            try:
                value, end = decoder.raw_decode(self._text, self._at)
            except RecursionError as error:
                raise Broken from error
            except ValueError as error:
                if len(self._text) - self._at > _LARGEST_VALUE or not self._more():
                    raise Broken from error
                continue
            # A number at the very end may go on in the next piece.
            if end < len(self._text) or not self._more():
                self._at = end
                return value

    def _more(self) -> bool:
        """Read on, forgetting what was passed; a long value doubles the piece each time."""
        if self._ended:
            return False
        rest = self._text[self._at :]
        data = self._data.read(max(_CHUNK, len(rest)))
        self._ended = not data
        self._text, self._at = rest + self._decode.decode(data, final=self._ended), 0
        return bool(data)


def open_bytes(path: Path, file: IO[bytes], progress: Progress | None) -> Bytes:
    """The bytes of an open file."""
    return Bytes(file, path.stat().st_size, progress)
