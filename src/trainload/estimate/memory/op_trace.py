"""Reads an op trace: the operations, allocations and frees of a training step that was never run.

Reads one file and knows no framework; what the events mean for memory is computed elsewhere.
"""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trainload.errors import TraceError

FORMAT = 1
_AGAIN = "make it again"

Category = Literal["weight", "buffer", "input", "gradient", "optimizer", "activation", "temporary"]
Phase = Literal["forward", "backward", "update", "other"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceLayer:
    """A module of the traced model and its own parameters."""

    name: str
    kind: str
    """Its class."""
    parameters: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceTensor:
    """One operand or result; strides of None mean contiguous."""

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None
    storage: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Allocation:
    """A storage comes into being."""

    storage: int
    size_bytes: int
    category: Category
    """`temporary` where only its lifetime tells."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Free:
    """A storage is no longer held by anyone."""

    storage: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """An operation about to run; the allocations of its results follow it."""

    name: str
    layer: str | None
    phase: Phase
    step: int
    inputs: tuple[TraceTensor, ...]
    outputs: tuple[TraceTensor, ...]
    attributes: tuple[Any, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """`step begin`, `backward begin`, `update begin` or `step end`."""

    text: str
    step: int


Event = Allocation | Free | Operation | Mark


@dataclass(frozen=True, kw_only=True)
class OpTrace:
    """An op trace on disk: its first line, and its events read one by one."""

    path: Path
    framework: str
    version: str
    target: Literal["cuda", "cpu"]
    precision: str | None
    """None where a script brings its own."""
    optimizer: str | None
    batch_size: int | None
    iterations: int
    layers: tuple[TraceLayer, ...]
    notes: tuple[str, ...]
    at_most: bool = False
    """Whether sizes in it depend on numbers and are the largest that they can be."""

    def events(self) -> Iterator[Event]:
        """All events in order; TraceError where the file is damaged."""
        with _opened(self.path) as lines:
            next(lines)
            for number, line in enumerate(lines, start=2):
                try:
                    row = json.loads(line)
                    event = _READERS[row[0]](row)
                except (ValueError, KeyError, TypeError, IndexError) as error:
                    raise TraceError(
                        f"{self.path}: line {number} is no event of an op trace; {_AGAIN}"
                    ) from error
                yield event


def load_op_trace(path: Path) -> OpTrace:
    """The trace in a file, its first line read; TraceError where it is none or damaged."""
    with _opened(path) as lines:
        first = next(lines, "")
    try:
        header = json.loads(first)
    except ValueError as error:
        raise TraceError(f"{path} is no op trace") from error
    if not isinstance(header, dict) or header.get("kind") != "op_trace":
        raise TraceError(f"{path} is no op trace")
    if header.get("format") != FORMAT:
        raise TraceError(
            f"{path} is an op trace of format {header.get('format')!r}; "
            f"this version reads {FORMAT}; {_AGAIN}"
        )
    try:
        return _read_header(path, header)
    except (KeyError, TypeError, ValueError) as error:
        raise TraceError(f"{path}: the first line lacks {error}; {_AGAIN}") from error


def _read_header(path: Path, header: Mapping[str, Any]) -> OpTrace:
    if header["target"] not in ("cuda", "cpu"):
        raise ValueError("a target")
    return OpTrace(
        path=path,
        framework=str(header["framework"]),
        version=str(header["version"]),
        target=header["target"],
        precision=header["precision"],
        optimizer=header["optimizer"],
        batch_size=header["batch_size"],
        iterations=int(header["iterations"]),
        layers=tuple(
            TraceLayer(name=row["name"], kind=row["class"], parameters=int(row["parameters"]))
            for row in header["layers"]
        ),
        notes=tuple(map(str, header.get("notes", ()))),
        at_most=bool(header.get("at_most", False)),
    )


class _opened:  # noqa: N801 - used as a function
    """The lines of a gzip file; whatever is wrong with it is a TraceError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Iterator[str]:
        try:
            self._file = gzip.open(self._path, "rt", encoding="utf-8")
        except OSError as error:
            raise TraceError(f"cannot read {self._path}: {error.strerror}") from error
        return self._lines()

    def __exit__(self, *_ending: object) -> None:
        self._file.close()

    def _lines(self) -> Iterator[str]:
        try:
            yield from self._file
        except EOFError as error:
            raise TraceError(f"{self._path} ends too early; {_AGAIN}") from error
        except (OSError, zlib.error, UnicodeDecodeError) as error:
            raise TraceError(f"{self._path} is damaged or no op trace; {_AGAIN}") from error


def _read_tensor(row: Any) -> TraceTensor:
    shape, dtype, strides, storage = row
    return TraceTensor(
        shape=tuple(shape),
        dtype=dtype,
        strides=None if strides is None else tuple(strides),
        storage=storage,
    )


def _read_allocation(row: Any) -> Allocation:
    _, storage, size_bytes, category = row
    return Allocation(storage=int(storage), size_bytes=int(size_bytes), category=category)


def _read_operation(row: Any) -> Operation:
    _, name, layer, phase, step, inputs, outputs, attributes = row
    return Operation(
        name=name,
        layer=layer,
        phase=phase,
        step=int(step),
        inputs=tuple(map(_read_tensor, inputs)),
        outputs=tuple(map(_read_tensor, outputs)),
        attributes=tuple(attributes),
    )


_READERS: Mapping[str, Callable[[Any], Event]] = {
    "a": _read_allocation,
    "f": lambda row: Free(storage=int(row[1])),
    "o": _read_operation,
    "m": lambda row: Mark(text=str(row[1]), step=int(row[2])),
}
