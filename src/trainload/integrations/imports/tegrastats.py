"""Logs of NVIDIA's tegrastats: a sample a line, loads, memory, clocks, temperatures, every rail."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from trainload.analyse.collect import LogLines
from trainload.errors import MeterError, UsageError
from trainload.integrations.imports.runs import ImportedRun, ImportOptions, Samples, described
from trainload.integrations.imports.source import digest_of
from trainload.meters.tegrastats import (
    TegrastatsReading,
    parse_tegrastats_line,
    tegrastats_quantities,
    tegrastats_values,
)
from trainload.record import RecordedQuantity
from trainload.units import unit_of

KIND = "tegrastats"
SUM_OF_RAILS = "tegra_sum_of_rails_power_w"
_STAMP = re.compile(r"\s*(\d\d)-(\d\d)-(\d{4}) (\d\d):(\d\d):(\d\d) ")
_SUM_REASON = "all rails added, as studies publish it: counts twice what a board's input carries"


def read_tegrastats(paths: Sequence[Path], options: ImportOptions) -> Iterator[ImportedRun]:
    """A run for each log; UsageError where a file holds no line of tegrastats."""
    for path in paths:
        digest = digest_of(path)
        samples, notes = tegrastats_samples(path, options.interval_s)
        yield ImportedRun(
            kind=KIND,
            files={path.name: digest},
            **described(options, path.stem),
            samples=samples,
            notes=notes,
        )


def is_tegrastats(path: Path) -> bool:
    """Whether the first line of a file that holds anything is one of tegrastats."""
    line = next(iter(LogLines(path)), None)
    return line is not None and _parse(line.text) is not None


def tegrastats_samples(path: Path, interval_s: float | None) -> tuple[Samples, tuple[str, ...]]:
    """The samples of a log, and what to know of them; the file is read twice, in pieces."""
    columns: dict[str, RecordedQuantity] = {}
    lines, good, stamped = 0, 0, True
    for line in LogLines(path):
        lines += 1
        reading = _parse(line.text)
        if reading is None:
            continue
        good += 1
        stamped = stamped and _STAMP.match(line.text) is not None
        new = set(_values(reading)) - columns.keys()
        if new:
            columns.update(
                (one.column, one) for one in _quantities(reading, path.name) if one.column in new
            )
    if not good:
        raise UsageError(f"{path} holds no line of tegrastats (RAM …/…MB … CPU [… ]…)")
    if interval_s is None and not stamped:
        raise UsageError(
            f"the lines of {path} tell no time; say how far apart they are: --interval SECONDS"
        )
    notes = [f"{lines - good:,} of {lines:,} lines are none of tegrastats; left out"]
    return (
        Samples(quantities=tuple(columns.values()), rows=_rows(path, tuple(columns), interval_s)),
        tuple(notes) if lines > good else (),
    )


def _rows(
    path: Path, columns: Sequence[str], interval_s: float | None
) -> Iterator[tuple[float, list[float | None]]]:
    first_s: float | None = None
    number = -1
    for line in LogLines(path):
        reading = _parse(line.text)
        if reading is None:
            continue
        number += 1
        if interval_s is not None:
            t_s = number * interval_s
        else:
            now_s = _stamp_s(line.text)
            first_s = now_s if first_s is None else first_s
            t_s = now_s - first_s
        values = _values(reading)
        yield t_s, [values.get(column) for column in columns]


def _parse(text: str) -> TegrastatsReading | None:
    try:
        return parse_tegrastats_line(text)
    except MeterError:
        return None


def _values(reading: TegrastatsReading) -> dict[str, float | None]:
    return {**dict(tegrastats_values(reading)), SUM_OF_RAILS: reading.sum_of_rails_w}


def _quantities(reading: TegrastatsReading, source: str) -> Iterator[RecordedQuantity]:
    for one in tegrastats_quantities(reading, source, None):
        yield RecordedQuantity(
            column=one.column,
            provenance=one.provenance,
            source=one.source,
            reason=one.reason,
            capacity=one.capacity,
            cumulative=False,
            unit=unit_of(one.column),
        )
    yield RecordedQuantity(
        column=SUM_OF_RAILS,
        provenance="derived",
        source=source,
        reason=_SUM_REASON,
        cumulative=False,
        unit="W",
    )


def _stamp_s(text: str) -> float:
    found = _STAMP.match(text)
    assert found is not None, "lines without a stamp are refused before"
    month, day, year, hour, minute, second = map(int, found.groups())
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except ValueError:
        raise UsageError(f"{text[:40]!r} begins with no date; say --interval SECONDS") from None
