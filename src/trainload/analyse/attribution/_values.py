"""Numbers and names of a trace's events as columns can hold them; knows no event."""

from __future__ import annotations

from typing import Any

_LARGEST = 1 << 61


def printable(name: str) -> str:
    """The name with lone surrogates replaced: JSON can hold them, UTF-8 files cannot."""
    return name.encode("utf-8", "replace").decode()


def nanoseconds(microseconds: Any) -> int:
    """Exact nanoseconds of a time in microseconds, as the text of the number or a whole one."""
    if type(microseconds) is str:
        before, _, after = microseconds.partition(".")
        try:
            found = int(before) * 1000
            if after:
                thousandths = int((after + "00")[:3])
                found += -thousandths if before.startswith("-") else thousandths
        except ValueError:
            found = round(float(microseconds) * 1000)
    elif type(microseconds) is int:
        found = microseconds * 1000
    else:
        raise TypeError
    if not -_LARGEST < found < _LARGEST:
        raise ValueError
    return found


def whole(value: Any, missing: int) -> int:
    """A whole number that a column can hold; `missing` for anything else."""
    return value if type(value) is int and -_LARGEST < value < _LARGEST else missing
