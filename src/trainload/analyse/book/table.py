"""Tables of the book as JSON: the shipped one, and those of others, which are checked.

A prediction of `trainload predict --json` is read as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from trainload.analyse.book.entries import METRICS, BookEntry, BookFigure
from trainload.errors import RecordError
from trainload.record.inside import parse_json
from trainload_worker.protocol.checked import CheckError, build_checked, to_json

FORMAT = 1
LARGEST_BYTES = 64 << 20
_PREDICTED = {
    "step_s": "step_s",
    "examples_per_s": "examples_per_s",
    "mean_power_w": "power_w",
    "duration_s": "training_s",
    "energy_j": "training_energy_j",
}
"""Figures of the book, and what they are called in a prediction."""


@dataclass(frozen=True)
class BookTable:
    """A file of entries."""

    format: int
    kind: str
    entries: tuple[BookEntry, ...]
    command: str = ""
    """What made it."""


def table_json(entries: Sequence[BookEntry], command: str = "") -> dict[str, Any]:
    """The document of a table."""
    told: dict[str, Any] = to_json(
        BookTable(format=FORMAT, kind="book", entries=tuple(entries), command=command)
    )
    return told


def load_shipped() -> tuple[BookEntry, ...]:
    """What was measured for this product."""
    path = files("trainload.analyse.book").joinpath("shipped.json")
    return parse_table(path.read_bytes(), "the shipped table")


def parse_table(text: bytes, where: str) -> tuple[BookEntry, ...]:
    """Entries of a table or of predictions; RecordError says what is wrong with it."""
    try:
        document = parse_json(text)
    except ValueError as error:
        raise RecordError(f"{where} is no JSON: {error}") from None
    if isinstance(document, dict) and document.get("origin") == "prediction":
        return tuple(_predicted(document, where))
    if not isinstance(document, dict) or document.get("kind") != "book":
        raise RecordError(
            f"{where} is neither a table of the book nor an answer of trainload predict --json"
        )
    if document.get("format") != FORMAT:
        raise RecordError(f"{where} has format {document.get('format')!r}; this reads {FORMAT}")
    try:
        table = build_checked(BookTable, document, "")
    except CheckError as error:
        raise RecordError(f"{where}: {error}") from None
    for entry in table.entries:
        for metric, figure in entry.figures.items():
            values = (figure.value, figure.low, figure.high)
            if metric not in METRICS or any(v is not None and not math.isfinite(v) for v in values):
                raise RecordError(f"{where}: {entry.model}: {metric} is no figure of the book")
    return table.entries


def _predicted(document: Mapping[str, Any], where: str) -> Iterator[BookEntry]:
    devices = document.get("devices")
    if isinstance(devices, list):
        documents = [one.get("prediction") for one in devices if isinstance(one, dict)]
    else:
        documents = [document]
    for one in documents:
        if not isinstance(one, dict):
            raise RecordError(f"{where}: a prediction of it is damaged")
        yield _prediction(one, where)


def _prediction(told: Mapping[str, Any], where: str) -> BookEntry:
    low, high = _part(told, "low"), _part(told, "high")
    figures = {}
    for metric, name in _PREDICTED.items():
        value = _number(told.get(name))
        if value is not None:
            figures[metric] = BookFigure(
                value=value,
                low=_number(low.get(name)),
                high=_number(high.get(name)),
            )
    needed = _part(_part(told, "memory"), "needed_bytes")
    if (value := _number(needed.get("value_bytes"))) is not None:
        ends = (_number(needed.get("low_bytes")), _number(needed.get("high_bytes")))
        figures["peak_device_bytes"] = BookFigure(value=value, low=ends[0], high=ends[1])
    if not isinstance(told.get("what"), str):
        raise RecordError(f"{where}: a prediction says not of what it is")
    batch, count = told.get("batch_size"), told.get("count")
    device = told.get("device")
    step_energy = _number(told.get("energy_j"))
    if step_energy is not None and isinstance(batch, int) and isinstance(count, int):
        figures["energy_per_example_j"] = BookFigure(value=step_energy / max(batch * count, 1))
    return BookEntry(
        model=told["what"],
        origin="predicted",
        source="trainload predict",
        framework="torch",
        device=f"{count} × {device}" if isinstance(count, int) and count > 1 else str(device),
        batch_size=batch if isinstance(batch, int) else None,
        precision=_word(told.get("precision")),
        optimizer=_word(told.get("optimizer")),
        figures=figures,
        note=str(told.get("missing") or ""),
    )


def _part(told: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = told.get(name)
    return found if isinstance(found, dict) else {}


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) else None
