"""The form of a calibration's file: points stored by column, to stay small.

Turns values into a checked document and back; touches no disk.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from trainload.errors import HardwareFileError
from trainload.hardware.calibrations.types import Calibration, DType, Operation, Point
from trainload.hardware.own_files import check_key, check_words
from trainload_worker.protocol.checked import Bounds, CheckError, build_checked, to_json

T = TypeVar("T")
_Key = tuple[str, str, tuple[str, ...], bool]
FORMAT = 1
KIND = "trainload calibration"
_MOST_POINTS = 50_000
_MOST_SIZES = 16

Counted = Annotated[float, Bounds(low=0, high=1e20)]
Seconds = Annotated[float, Bounds(above=0, high=1e5)]
Watts = Annotated[float, Bounds(low=0, high=1e5)]
Size = Annotated[int, Bounds(low=0, high=1e15)]


@dataclass(frozen=True, kw_only=True)
class _Column:
    """The points of one class and type: the n-th entry of each list is the n-th point."""

    operation: Operation
    dtype: DType
    sizes: Mapping[str, tuple[Size, ...]]
    flops: tuple[Counted, ...]
    bytes: tuple[Counted, ...]
    seconds: tuple[Seconds, ...]
    power_w: tuple[Watts | None, ...] | None = None
    sustained_s: tuple[Seconds | None, ...] | None = None
    within_step: bool = False


@dataclass(frozen=True, kw_only=True)
class _Document:
    """A file of format 1."""

    kind: Literal["trainload calibration"]
    format: Literal[1]
    device: str
    taken_at: str
    source: str
    points: tuple[_Column, ...]
    dispatch_s: Mapping[str, Seconds] = field(default_factory=dict)
    idle_w: Watts | None = None
    software: Mapping[str, str] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    host_cpu: str | None = None


def to_document(calibration: Calibration) -> dict[str, Any]:
    """The calibration as its file has it; counts have eight digits, seconds five."""
    columns: dict[_Key, list[Point]] = {}
    for point in calibration.points:
        key = (point.operation, point.dtype, tuple(point.sizes), point.within_step)
        columns.setdefault(key, []).append(point)
    return {
        "kind": KIND,
        "format": FORMAT,
        "device": calibration.device,
        "taken_at": calibration.taken_at,
        "source": calibration.source,
        "software": dict(calibration.software),
        "host_cpu": calibration.host_cpu,
        "lacks": list(calibration.lacks),
        "notes": list(calibration.notes),
        "idle_w": _short(calibration.idle_w, 5),
        "dispatch_s": {name: _short(s, 5) for name, s in calibration.dispatch_s.items()},
        "points": [_to_column(key, points) for key, points in columns.items()],
    }


def from_document(document: Mapping[str, Any], where: str) -> Calibration:
    """The calibration of a document from anyone; HardwareFileError names what is wrong with it."""
    if document.get("kind") != KIND:
        raise HardwareFileError(f"{where} is no calibration; trainload calibrate makes one")
    if document.get("format") != FORMAT:
        raise HardwareFileError(
            f"{where} has format {document.get('format')!r:.20}, this trainload reads {FORMAT}"
        )
    try:
        found = build_checked(_Document, document, where)
    except CheckError as error:
        # A name in the file may hold line breaks.
        raise HardwareFileError(" ".join(str(error).split())) from None
    texts = [found.source, *found.lacks, *found.notes, found.host_cpu or ""]
    for text in (*texts, *found.software, *found.software.values(), *found.dispatch_s):
        check_words(text, where)
    _check_date(found.taken_at, where)
    points = [point for n, column in enumerate(found.points) for point in _points(column, where, n)]
    if len(points) > _MOST_POINTS:
        raise HardwareFileError(f"{where}: {len(points):,} points; at most {_MOST_POINTS:,}")
    return Calibration(
        device=check_key(found.device, f"{where}: device"),
        points=tuple(points),
        dispatch_s=found.dispatch_s,
        idle_w=found.idle_w,
        taken_at=found.taken_at,
        software=found.software,
        source=found.source,
        lacks=found.lacks,
        notes=found.notes,
        host_cpu=found.host_cpu,
    )


def _to_column(key: _Key, points: list[Point]) -> dict[str, Any]:
    operation, dtype, names, within_step = key
    column = _Column(
        operation=operation,  # type: ignore[arg-type]
        dtype=dtype,  # type: ignore[arg-type]
        sizes={name: tuple(point.sizes[name] for point in points) for name in names},
        flops=tuple(_short(point.flops, 8) for point in points),
        bytes=tuple(_short(point.bytes, 8) for point in points),
        seconds=tuple(_short(point.seconds, 5) for point in points),
        power_w=_some(tuple(_short(point.power_w, 4) for point in points)),
        sustained_s=_some(tuple(_short(point.sustained_s, 5) for point in points)),
        within_step=within_step,
    )
    written: dict[str, Any] = to_json(column)
    return written


def _points(column: _Column, where: str, position: int) -> list[Point]:
    count = len(column.seconds)
    place = f"{where}: points[{position}]"
    columns = [column.flops, column.bytes, *column.sizes.values()]
    none = (None,) * count
    powers = none if column.power_w is None else column.power_w
    sustained = none if column.sustained_s is None else column.sustained_s
    if len(column.sizes) > _MOST_SIZES:
        raise HardwareFileError(f"{place} has {len(column.sizes)} sizes; at most {_MOST_SIZES}")
    if any(len(one) != count for one in (*columns, powers, sustained)):
        raise HardwareFileError(f"{place} has columns of different lengths")
    for name in column.sizes:
        check_words(name, place)
    return [
        Point(
            operation=column.operation,
            dtype=column.dtype,
            sizes={name: values[n] for name, values in column.sizes.items()},
            flops=column.flops[n],
            bytes=column.bytes[n],
            seconds=column.seconds[n],
            power_w=powers[n],
            sustained_s=sustained[n],
            within_step=column.within_step,
        )
        for n in range(count)
    ]


def _some(values: tuple[T | None, ...]) -> tuple[T | None, ...] | None:
    """The column, or None where it says nothing."""
    return None if all(value is None for value in values) else values


def _check_date(text: str, where: str) -> None:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise HardwareFileError(f"{where}: taken_at {text[:40]!r} is no ISO date") from None


def _short(value: float | None, digits: int) -> Any:
    """With so many digits and no more; a whole number without its point."""
    if value is None:
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded
