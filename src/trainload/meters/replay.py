"""Replays recorded readings, so that a run can be watched without devices; reads one file."""

import json
from collections.abc import Sequence
from pathlib import Path

from trainload.errors import MeterError
from trainload.meters.meter import AbsentMeter, Meter, MeterContext, Quantity, Value

_NAME = "replay"


class ReplayMeter:
    """Answers one recorded row for each read."""

    name = _NAME
    period_s = 0.0

    def __init__(
        self, columns: Sequence[str], rows: Sequence[Sequence[Value]], source: str, wrap: bool
    ) -> None:
        self._rows = [list(row) for row in rows]
        self._wrap = wrap
        self._next = 0
        self.quantities = tuple(
            Quantity(
                column=column, provenance="derived", source=source, reason="replayed from a file"
            )
            for column in columns
        )

    def read(self, t_s: float) -> list[Value]:  # noqa: ARG002 - rows come in their order
        """The next row; after the last one None throughout, or the first again when wrapping."""
        if self._next >= len(self._rows):
            if not (self._wrap and self._rows):
                return [None] * len(self.quantities)
            self._next = 0
        row = self._rows[self._next]
        self._next += 1
        return list(row)

    def close(self) -> None:
        """Nothing to give back."""


def load_replay(path: Path) -> tuple[list[str], list[list[Value]]]:
    """Columns and rows of a file of JSON lines: `{"columns": [...]}`, then one array a row.

    Raises MeterError with the line's number where the file has another form.
    """
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        parsed: list[object] = [json.loads(line) for line in lines]
    except (ValueError, RecursionError) as error:
        raise MeterError(f"{path} is not a file of JSON lines: {error}") from error
    header = parsed[0] if parsed else None
    columns = header.get("columns") if isinstance(header, dict) else None
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise MeterError(f'{path} line 1 is no header: {{"columns": [names]}} is expected')
    rows: list[list[Value]] = []
    for number, row in enumerate(parsed[1:], start=2):
        if not isinstance(row, list) or len(row) != len(columns):
            raise MeterError(f"{path} row {number} is no array of {len(columns)} values")
        if not all(value is None or isinstance(value, int | float) for value in row):
            raise MeterError(f"{path} row {number} holds something that is neither number nor null")
        rows.append(row)
    return columns, rows


def open_replay_meter(context: MeterContext, wrap: bool = False) -> Meter:
    """The recorded readings; absent without a file. A malformed file is a MeterError."""
    path = context.replay_path
    if path is None:
        return AbsentMeter(name=_NAME, reason="no recording was named", source="replay file")
    try:
        columns, rows = load_replay(path)
    except OSError as error:
        reason = f"{path}: {error.strerror}"
        return AbsentMeter(name=_NAME, reason=reason, source=str(path))
    return ReplayMeter(columns, rows, str(path), wrap)
