"""Keeps the events of an op trace in order and writes them as one file; knows no framework.

Categories may be told after the allocation, so the lines are made when the file is written.
"""

from __future__ import annotations

import gzip
import json
import os
from itertools import islice
from typing import Any, Iterator, Mapping

FORMAT = 1

UNTOLD = "temporary"
"""Where only the future tells: a reader decides by the lifetime."""


class OpTraceLog:
    """Allocations, frees, operations and marks of the traced steps."""

    def __init__(self) -> None:
        self._events: list[Any] = []
        self._bytes: list[int] = []
        self._categories: list[str] = []
        self.step = 0
        self.open = True
        """Off once the trace has ended: what is freed afterwards is no part of it."""
        self._live: set[int] = set()
        self._remembered: set[int] = set()
        self.operations = 0

    def allocate(self, size: int, category: str) -> int:
        """Records the allocation of a storage of `size` bytes; returns its number."""
        number = len(self._bytes)
        self._bytes.append(size)
        self._categories.append(category)
        self._live.add(number)
        self._events.append(number)
        return number

    def free(self, number: int) -> None:
        """Records that the storage is freed; ignored once the trace has ended."""
        if self.open:
            self._live.discard(number)
            self._events.append(~number)

    def operation(self, line: str) -> None:
        """Notes an operation, already in its written form."""
        self.operations += 1
        self._events.append(line)

    @property
    def last(self) -> int:
        """Index of the latest event."""
        return len(self._events) - 1

    def complete(self, place: int, line: str) -> None:
        """Gives an operation its written form once its results have their storages."""
        self._events[place] = line

    def mark(self, text: str) -> None:
        """Notes where a step or one of its parts begins or ends."""
        self._events.append(json.dumps(["m", text, self.step]))

    def tell(self, number: int, category: str) -> None:
        """Sets the category of a storage, such as `activation`."""
        self._categories[number] = category

    def untold_since(self, first: int) -> list[int]:
        """Live storages from that number on whose category has not been set."""
        return [n for n in self._live if n >= first and self._categories[n] == UNTOLD]

    def remember(self, number: int) -> None:
        """Keeps a storage in the trace though it is freed before the first step."""
        if number >= 0:
            self._remembered.add(number)

    def forget_past(self) -> None:
        """Drops events so far but allocations and frees of storages still live or remembered."""
        kept = self._live | self._remembered
        past = [event for event in self._events if isinstance(event, int)]
        self._events = [e for e in past if (e if e >= 0 else ~e) in kept]
        self.operations = 0

    @property
    def next_number(self) -> int:
        """The number that the next storage will have."""
        return len(self._bytes)

    def save(self, path: str, header: Mapping[str, Any]) -> None:
        """Writes the file beside its place and moves it there, whole."""
        beside = f"{path}.{os.getpid()}.part"
        try:
            with open(beside, "wb") as raw, gzip.GzipFile("", "wb", 1, raw, 0) as file:
                for lines in _batches(self._lines(header), 4096):
                    file.write(("\n".join(lines) + "\n").encode("utf-8"))
            os.replace(beside, path)
        except BaseException:
            if os.path.exists(beside):
                os.unlink(beside)
            raise

    def _lines(self, header: Mapping[str, Any]) -> Iterator[str]:
        yield json.dumps({"kind": "op_trace", "format": FORMAT, **header}, separators=(",", ":"))
        sizes, categories = self._bytes, self._categories
        for event in self._events:
            if isinstance(event, str):
                yield event
            elif event >= 0:
                yield f'["a",{event},{sizes[event]},"{categories[event]}"]'
            else:
                yield f'["f",{~event}]'


def _batches(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    batch = list(islice(lines, size))
    while batch:
        yield batch
        batch = list(islice(lines, size))
