"""Files from elsewhere opened and told apart by content; lines of a log in bounded memory.

Takes no meaning from a line: that is the patterns' business.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Literal

from trainload.errors import RecordError, UsageError

MOST_LINE_CHARACTERS = 4096
"""What a longer line has beyond this is not looked at."""
_CHUNK_BYTES = 1 << 18
_HEAD_BYTES = 1 << 16
_BREAK = re.compile(r"\r\n|[\r\n\x0b\x0c\x85\u2028\u2029]")
_ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|[\x00\x08]"
)
_UP = "\x1b[A"
_BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_TRACE_WORDS = (
    b'"traceEvents"', b'"schemaVersion"', b'"baseTimeNanoseconds"', b'"deviceProperties"',
)  # fmt: skip
_BINARY_SHARE = 0.1

Content = Literal["trace", "log"]


def recognise(path: Path) -> Content:
    """Whether a file is a Chrome trace or a text log; an error where it is neither."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give the trace or the log in it")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no plain file, and is read twice; save it to a file first")
    head = _read_head(path)
    if not head:
        raise UsageError(f"{path} is empty; give a Kineto trace or a training log")
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] == b"{" and (
        start[1:].lstrip().startswith(b'"trainload"') or any(word in head for word in _TRACE_WORDS)
    ):
        return "trace"
    if start[:1] == b"[" and b'"ph"' in head and b'"name"' in head:
        return "trace"
    if not any(head.startswith(bom) for bom in _BOMS) and _is_binary(head):
        raise UsageError(f"{path} is binary; give a Kineto trace (JSON) or a training log (text)")
    return "log"


def _is_binary(head: bytes) -> bool:
    if b"\x00" in head:
        return True
    control = sum(
        head.count(bytes((code,))) for code in range(32) if code not in b"\t\n\r\x08\x0c\x1b"
    )
    return control > _BINARY_SHARE * len(head)


def _read_head(path: Path) -> bytes:
    try:
        with _open(path) as file:
            head = b""
            while len(head) < _HEAD_BYTES:
                piece = _read_some(file, path, _HEAD_BYTES - len(head))[0]
                if not piece:
                    break
                head += piece
            return head
    except OSError as error:
        raise _cannot_read(path, error) from error


def _cannot_read(path: Path, error: OSError) -> RecordError:
    return RecordError(f"cannot read {path}: {error.strerror or error}")


def _open(path: Path) -> BufferedIOBase:
    file = path.open("rb")
    try:
        packed = file.read(2) == b"\x1f\x8b"
    finally:
        file.close()
    return gzip.open(path, "rb") if packed else path.open("rb")


def _read_some(file: BufferedIOBase, path: Path, size: int) -> tuple[bytes, str | None]:
    """The next bytes, fewer at the end, and why a packed file ended early."""
    try:
        # read() would lose what stands before a damage; read1() hands it over first.
        return file.read1(size), None
    except EOFError:
        return b"", "the packed file is cut short; what is left of it was read"
    except (zlib.error, gzip.BadGzipFile) as error:
        if file.tell() == 0:
            raise UsageError(f"{path} is no readable gzip file: {error}") from error
        return b"", "the packed file is damaged; what stands before the damage was read"


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """One line without colours and escapes; a redraw of a progress bar is a line of its own."""

    number: int
    """Counted from 1 by line ends, as an editor does; redraws share their line's."""
    text: str
    nested: bool = False
    """A bar inside another one: the cursor goes up again behind it."""


class LogLines:
    """The lines of one log file, each time it is iterated; `notes` is filled on the way."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes: list[str] = []
        self._long = 0

    def __iter__(self) -> Iterator[LogLine]:
        self.notes, self._long = [], 0
        number = 1
        for text, ended in self._pieces():
            clean = _ANSI.sub("", text[:MOST_LINE_CHARACTERS]) if text else text
            if clean.strip():
                yield LogLine(number=number, text=clean, nested=text.endswith(_UP))
            number += ended
        if self._long:
            self.notes.append(
                f"lines over {MOST_LINE_CHARACTERS:,} characters: {self._long:,}; "
                "only their beginnings were read"
            )

    def _pieces(self) -> Iterator[tuple[str, int]]:
        """Text between line ends or carriage returns, and 1 where a line ended."""
        rest = ""
        overlong = False
        for text in self._decoded():
            begin = 0
            text = rest + text
            # A carriage return at the very end may be half of a line end.
            stop = len(text) - 1 if text.endswith("\r") else len(text)
            for found in _BREAK.finditer(text, 0, stop):
                if found.start() - begin > MOST_LINE_CHARACTERS:
                    self._long += not overlong
                yield text[begin : found.start()] if not overlong else "", found[0] != "\r"
                begin, overlong = found.end(), False
            rest = text[begin:]
            if len(rest) > MOST_LINE_CHARACTERS:
                # The beginning is kept once; the rest of the line only awaits its end.
                if not overlong:
                    self._long += 1
                    yield rest[:MOST_LINE_CHARACTERS], 0
                overlong, rest = True, "\r" if rest.endswith("\r") else ""
        if rest and not overlong:
            yield rest, 1

    def _decoded(self) -> Iterator[str]:
        try:
            with _open(self.path) as file:
                chunk, fault = _read_some(file, self.path, _CHUNK_BYTES)
                name = next((n for bom, n in _BOMS.items() if chunk.startswith(bom)), "utf-8")
                # Digits are the same in every encoding met here: a wrong letter costs nothing.
                decoder = codecs.getincrementaldecoder(name)(errors="replace")
                while chunk:
                    yield decoder.decode(chunk)
                    chunk, fault = _read_some(file, self.path, _CHUNK_BYTES)
                yield decoder.decode(b"", final=True)
        except OSError as error:
            raise _cannot_read(self.path, error) from error
        if fault:
            self.notes.append(fault)
